{#- The columns of a source table, as columns_of. -#}
{% macro source_types(table) %}
  {{ return(columns_of(setting('source_schema'), source_table(table))) }}
{% endmacro %}

{#- The columns of a table or view: name to declared type and kind; empty if there is none. Read from pg_catalog,
    because information_schema has no materialized views. A domain has its base type's kind; all strings and enums are
    'text', but 'caseless' under a collation that holds different texts for equal. -#}
{% macro columns_of(schema, table) %}
  {%- set types = {} -%}
  {%- if not execute -%} {{ return(types) }} {%- endif -%}
  {%- set rows = run_query("
    with recursive columns as (
      select a.attname::text as column_name,
        concat_ws(' collate ', format_type(a.atttypid, a.atttypmod), quote_ident(l.collname)) as declared,
        a.atttypid as type_id, l.oid is not null as is_caseless
      from pg_attribute as a
      left join pg_collation as l on l.oid = a.attcollation and not l.collisdeterministic
      inner join pg_class as c on c.oid = a.attrelid
      inner join pg_namespace as n on n.oid = c.relnamespace
      where n.nspname = '" ~ schema | replace("'", "''") ~ "'
        and c.relname = '" ~ table | replace("'", "''") ~ "'
        and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and a.attnum > 0 and not a.attisdropped
      union all
      select columns.column_name, columns.declared, t.typbasetype, columns.is_caseless
      from columns
      inner join pg_type as t on t.oid = columns.type_id
      where t.typtype = 'd'
    )
    select columns.column_name, columns.declared,
      case when columns.is_caseless then 'caseless' when t.typcategory = 'S' or t.typtype = 'e' then 'text' else t.typname end
    from columns
    inner join pg_type as t on t.oid = columns.type_id
    where t.typtype <> 'd'") -%}
  {%- for row in rows -%}
    {%- do types.update({row[0]: {'declared': row[1], 'kind': row[2]}}) -%}
  {%- endfor -%}
  {{ return(types) }}
{% endmacro %}

{#- The column that names the signing key: signer_key_id in the lens's migrations, signature_key_id in its code. The
    second counts if both exist. -#}
{% macro signing_key_column(types) %}
  {{ return('signer_key_id' if 'signer_key_id' in types and 'signature_key_id' not in types else 'signature_key_id') }}
{% endmacro %}
