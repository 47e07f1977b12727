{#- Writes descriptions as comments on a relation and its columns if they changed: each comment waits for an autovacuum
    of the table. A described column that does not exist is an error here, unlike in dbt's own macro. -#}
{% macro describe(relation) %}
  {%- set descriptions = {'': model.description} -%}
  {%- for column in model.columns.values() -%}
    {%- do descriptions.update({column.name: column.description}) -%}
  {%- endfor -%}
  {%- set comments = {} -%}
  {%- set rows = run_query(
      "select coalesce(a.attname, ''), d.description from pg_description as d left join pg_attribute as a"
      ~ " on d.objoid = a.attrelid and d.objsubid = a.attnum and a.attnum > 0 where d.classoid = 'pg_class'::regclass"
      ~ " and d.objoid = to_regclass('" ~ relation | string | replace("'", "''") ~ "')") -%}
  {%- for row in rows -%}
    {%- do comments.update({row[0]: row[1]}) -%}
  {%- endfor -%}
  {%- set changes = [] -%}
  {%- for name, description in descriptions.items() if comments.get(name, '') != description -%}
    {%- set what = 'column ' ~ relation ~ '.' ~ adapter.quote(name) if name
        else ('view ' if relation.type == 'view' else 'table ') ~ relation -%}
    {%- do changes.append('comment on ' ~ what ~ ' is ' ~ postgres_escape_comment(description)) -%}
  {%- endfor -%}
  {%- if changes -%}
    {%- do run_query(changes | join(';\n')) -%}
  {%- endif -%}
{% endmacro %}
