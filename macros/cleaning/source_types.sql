{#- The columns of a source table or view as it stands: name to the type as declared and its kind; nothing where there
    is no such table. Read from pg_catalog, because dbt's own look at columns (information_schema) does not see
    materialized views. A domain is of its base type's kind, and every kind of string, enums too, is 'text'. -#}
{% macro source_types(table) %}
  {%- set types = {} -%}
  {%- if not execute -%} {{ return(types) }} {%- endif -%}
  {%- set rows = run_query("
    with recursive columns as (
      select a.attname::text as column_name, format_type(a.atttypid, a.atttypmod) as declared, a.atttypid as type_id
      from pg_attribute as a
      inner join pg_class as c on c.oid = a.attrelid
      inner join pg_namespace as n on n.oid = c.relnamespace
      where n.nspname = '" ~ setting('source_schema') | replace("'", "''") ~ "'
        and c.relname = '" ~ setting(table ~ '_table') | replace("'", "''") ~ "'
        and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and a.attnum > 0 and not a.attisdropped
      union all
      select columns.column_name, columns.declared, t.typbasetype
      from columns
      inner join pg_type as t on t.oid = columns.type_id
      where t.typtype = 'd'
    )
    select columns.column_name, columns.declared,
      case when t.typcategory = 'S' or t.typtype = 'e' then 'text' else t.typname end
    from columns
    inner join pg_type as t on t.oid = columns.type_id
    where t.typtype <> 'd'") -%}
  {%- for row in rows -%}
    {%- do types.update({row[0]: {'declared': row[1], 'kind': row[2]}}) -%}
  {%- endfor -%}
  {{ return(types) }}
{% endmacro %}
