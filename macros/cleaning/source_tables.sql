{#- Format of the source. 'traces': each trace is a row of covenant_traces. 'events': each trace has several rows in
    trace_events. If both tables exist, the format is 'traces', unless the variable ciris_source is set. -#}
{% macro source_shape() %}
  {%- set wanted = setting('source') -%}
  {%- if wanted is not none -%} {{ return(wanted) }} {%- endif -%}
  {%- if not execute -%} {{ return('traces') }} {%- endif -%}
  {{ return('events' if not source_types('covenant_traces') and source_types('trace_events') else 'traces') }}
{% endmacro %}

{#- Name of a source table in the database. The tables of the engine that stores events have fixed names. -#}
{% macro source_table(name) %}
  {{ return(name if name in constant('engine_tables') else setting(name ~ '_table')) }}
{% endmacro %}

{#- Source tables of a format ('traces' or 'events') by name: true if the table is required, false if it is optional.
    -#}
{% macro tables_of_shape(shape) %}
  {{ return(constant('tables_of_shape', {}).get(shape, {})) }}
{% endmacro %}

{#- A source table. The result is none if the format of the source (traces or events) does not have the table, or if the
    table is optional and does not exist. While dbt parses the project, the table is always returned, so that dbt knows
    the dependency. -#}
{% macro source_if_there(name, shape) %}
  {%- if not execute -%} {{ return(source('cirislens', name)) }} {%- endif -%}
  {%- if tables_of_shape(shape).get(name) or (name in tables_of_shape(shape) and source_types(name) | length > 0) -%}
    {{ return(source('cirislens', name)) }}
  {%- endif -%}
  {{ return(none) }}
{% endmacro %}

{#- Query that selects columns of a table. If the table is none, the query returns no rows. columns: types of the
    columns by name. table: result of source_if_there. -#}
{% macro rows_if_there(table, columns) -%}
  select
    {%- for name, type in columns.items() %}
    {{ name if table else 'null::' ~ type ~ ' as ' ~ name }}{{ ',' if not loop.last }}
    {%- endfor %}
  {{ 'from ' ~ table if table else 'where false' }}
{%- endmacro %}

{#- The columns of a source table (see columns_of). All source tables are read once per invocation, by one query. -#}
{% macro source_types(table) %}
  {%- if not execute -%} {{ return({}) }} {%- endif -%}
  {%- if 'source_types' not in kept() -%}
    {%- set tables = graph.sources.values() | selectattr('package_name', 'equalto', 'ciris_scoring') | map(attribute='identifier') | list -%}
    {%- do kept().update({'source_types': columns_of(setting('source_schema'), tables)}) -%}
  {%- endif -%}
  {{ return(kept()['source_types'].get(source_table(table), {})) }}
{% endmacro %}

{#- Columns of tables or views, by name of the table and name of the column: declared type and kind. A domain has the
    kind of its base type. Strings and enums have the kind 'text', or 'caseless' if their collation treats different texts
    as equal. -#}
{% macro columns_of(schema, tables) %}
  {%- set types = {} -%}
  {%- if not execute -%} {{ return(types) }} {%- endif -%}
  {%- set rows = ask("
    with recursive columns as (
      select c.relname::text as table_name, a.attname::text as column_name,
        concat_ws(' collate ', format_type(a.atttypid, a.atttypmod), quote_ident(l.collname)) as declared,
        a.atttypid as type_id, l.oid is not null as is_caseless
      from pg_attribute as a
      left join pg_collation as l on l.oid = a.attcollation and not l.collisdeterministic
      inner join pg_class as c on c.oid = a.attrelid
      inner join pg_namespace as n on n.oid = c.relnamespace
      where n.nspname = '" ~ schema | replace("'", "''") ~ "'
        and c.relname in ('" ~ tables | map('replace', "'", "''") | join("', '") ~ "')
        and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and a.attnum > 0 and not a.attisdropped
      union all
      select columns.table_name, columns.column_name, columns.declared, t.typbasetype, columns.is_caseless
      from columns
      inner join pg_type as t on t.oid = columns.type_id
      where t.typtype = 'd'
    )
    select columns.table_name, columns.column_name, columns.declared,
      case when columns.is_caseless then 'caseless' when t.typcategory = 'S' or t.typtype = 'e' then 'text' else t.typname end
    from columns
    inner join pg_type as t on t.oid = columns.type_id
    where t.typtype <> 'd'") -%}
  {%- for row in rows -%}
    {%- do types.setdefault(row[0], {}).update({row[1]: {'declared': row[2], 'kind': row[3]}}) -%}
  {%- endfor -%}
  {{ return(types) }}
{% endmacro %}

{#- A column that some installations lack, cast to a type; null if the table does not have it. -#}
{% macro column_if_there(table, column, type) -%}
  {{ column if column in source_types(table) else 'null' }}::{{ type }}
{%- endmacro %}

{#- Name of the column with the signing key. The lens's migrations call it signer_key_id, the lens's code
    signature_key_id. -#}
{% macro signing_key_column() %}
  {%- set types = source_types('covenant_traces') if source_shape() == 'traces' else {} -%}
  {{ return('signer_key_id' if 'signer_key_id' in types and 'signature_key_id' not in types else 'signature_key_id') }}
{% endmacro %}
