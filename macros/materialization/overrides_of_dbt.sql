{#- Empty a seed with DELETE, and give the table of an earlier version the columns of this one. dbt's macro uses
    TRUNCATE, which waits for readers of views on the seed. -#}
{% macro postgres__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {%- if model.package_name != 'ciris_scoring' -%}
    {{ return(dbt.default__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
  {%- elif full_refresh -%}
    {%- do wait_for_other_tables() -%}
    {%- do drop_with_views(old_relation) -%}
    {{ return(create_csv_table(model, agate_table)) }}
  {%- endif -%}
  {#- Changes the replica identity of a seed that an earlier version created. -#}
  {%- if run_query("select c.relreplident <> 'f' from pg_class as c where c.oid = to_regclass(" ~ literal(old_relation) ~ ")")[0][0] -%}
    {%- do run_query(replica_identity(old_relation)) -%}
  {%- endif -%}
  {%- do run_query('delete from ' ~ old_relation) -%}
  {%- set found, changes = {}, [] -%}
  {%- for row in run_query("
      select a.attname::text, a.attnotnull from pg_attribute as a
      where a.attrelid = to_regclass(" ~ literal(old_relation) ~ ") and a.attnum > 0 and not a.attisdropped") -%}
    {%- do found.update({row[0]: row[1]}) -%}
  {%- endfor -%}
  {%- for name in agate_table.column_names -%}
    {%- set type = model.config.get('column_types', {}).get(name) or adapter.convert_type(agate_table, loop.index0) -%}
    {%- if name not in found -%} {%- do changes.append('add column ' ~ adapter.quote(name) ~ ' ' ~ type) -%} {%- endif -%}
  {%- endfor -%}
  {%- for name, is_not_null in found.items() if is_not_null and name not in agate_table.column_names -%}
    {%- do changes.append('alter ' ~ adapter.quote(name) ~ ' drop not null') -%}
  {%- endfor -%}
  {%- if changes -%}
    {%- do run_query('alter table ' ~ old_relation ~ ' ' ~ changes | join(', ')) -%}
  {%- endif -%}
  {{ return('delete from ' ~ old_relation) }}
{% endmacro %}

{#- Create a seed. A seed has no primary key. In a database with a publication of all tables (logical replication),
    PostgreSQL deletes rows of a table without a primary key only if it has replica identity full. -#}
{% macro postgres__create_csv_table(model, agate_table) %}
  {%- set created = dbt.default__create_csv_table(model, agate_table) -%}
  {%- if model.package_name == 'ciris_scoring' -%} {%- do run_query(replica_identity(this) ~ distribute(this)) -%} {%- endif -%}
  {{ return(created) }}
{% endmacro %}

{#- SQL that lets PostgreSQL identify rows of a seed by all columns. -#}
{% macro replica_identity(seed) %}
  {{ return('alter table ' ~ seed ~ ' replica identity full;') }}
{% endmacro %}

{#- Cast of a value in a fixture of a unit test. dbt gives ARRAY as the type of every array column. All arrays in
    fixtures contain numbers. -#}
{% macro postgres__safe_cast(field, type) -%}
  cast({{ field }} as {{ 'numeric[]' if type == 'ARRAY' else type }})
{%- endmacro %}
