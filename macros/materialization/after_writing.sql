{#- Write changed descriptions of a table or view and its columns as comments. Unchanged descriptions are skipped,
    because writing a comment waits until an autovacuum of the table ends. Unlike in dbt's macro, a description of a
    missing column is an error. -#}
{% macro describe(relation) %}
  {%- set descriptions = {'': model.description} -%}
  {%- for column in model.columns.values() -%}
    {%- do descriptions.update({column.name: column.description}) -%}
  {%- endfor -%}
  {%- set comments = fromjson(run_query("
    select coalesce(jsonb_object_agg(coalesce(a.attname, ''), d.description), '{}')::text
    from pg_description as d
    left join pg_attribute as a on d.objoid = a.attrelid and d.objsubid = a.attnum and a.attnum > 0
    where d.classoid = 'pg_class'::regclass and d.objoid = to_regclass(" ~ literal(relation) ~ ")")[0][0]) -%}
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

{#- Grant and revoke rights as the config grants says. dbt's macro does not quote roles, and does not distinguish "BI"
    from bi. -#}
{% macro update_grants(relation) %}
  {%- set grants = config.get('grants') -%}
  {%- if grants -%}
    {%- set wanted = [] -%}
    {%- for privilege, roles in grants.items() -%}
      {%- for role in ([roles] if roles is string else roles) -%}
        {%- do wanted.append((privilege | lower, 'public' if role | lower == 'public' else role)) -%}
      {%- endfor -%}
    {%- endfor -%}
    {%- set found, changes = [], [] -%}
    {%- for row in run_query("
        select rights.privilege_type, case rights.grantee when 0 then 'public' else grantees.rolname end
        from pg_class as c
        cross join aclexplode(c.relacl) as rights
        left join pg_roles as grantees on rights.grantee = grantees.oid
        where c.oid = to_regclass(" ~ literal(relation) ~ ") and rights.grantee <> c.relowner and rights.grantor = c.relowner") -%}
      {%- do found.append((row[0] | lower, row[1])) -%}
    {%- endfor -%}
    {%- for privilege, role in found if (privilege, role) not in wanted -%}
      {%- do changes.append('revoke ' ~ privilege ~ ' on ' ~ relation ~ ' from ' ~ quoted_role(role)) -%}
    {%- endfor -%}
    {%- for privilege, role in wanted | unique if (privilege, role) not in found -%}
      {%- do changes.append('grant ' ~ privilege ~ ' on ' ~ relation ~ ' to ' ~ quoted_role(role)) -%}
    {%- endfor -%}
    {%- if changes -%} {%- do run_query(changes | join(';\n')) -%} {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Name of a role as GRANT accepts it. A role cannot have the name public. -#}
{% macro quoted_role(role) %}
  {{ return('public' if role == 'public' else '"' ~ role | replace('"', '""') ~ '"') }}
{% endmacro %}

{#- Analyze the columns of a table's key and indexes. An increment reads a tenth of the usual sample, because reading
    the sample takes most of the time. An increment skips a table that autovacuum has locked. -#}
{% macro update_statistics(node, table, is_increment) -%}
  {%- set columns = indexed_columns(node) -%}
  {%- if columns -%}
    select set_config('default_statistics_target', '{{ 10 if is_increment else 100 }}', true);
    analyze {{ '(skip_locked)' if is_increment }} {{ table }} ({{ columns | join(', ') }});
  {%- endif -%}
{%- endmacro %}

{#- Columns of the key and indexes of a model's table. -#}
{% macro indexed_columns(node) %}
  {%- set columns = (node.config.get('indexes') or []) | map(attribute='columns') | sum(start=[]) -%}
  {%- set keys = node.constraints | selectattr('type', 'equalto', 'primary_key') | map(attribute='columns') | sum(start=[]) -%}
  {{ return((columns + keys) | unique | list) }}
{% endmacro %}

{#- Clauses of alter table that turn off the statistics of columns. The tables of Python models have dozens of numbers by
    which no query filters, and autovacuum would analyze all of them after each run. Empty for other models. -#}
{% macro without_statistics(columns) %}
  {%- set clauses = [] -%}
  {%- for name in columns if model.language == 'python' and distribution_of(model) == 'local' and name not in indexed_columns(model) -%}
    {%- do clauses.append('alter ' ~ adapter.quote(name) ~ ' set statistics 0') -%}
  {%- endfor -%}
  {{ return(clauses) }}
{% endmacro %}
