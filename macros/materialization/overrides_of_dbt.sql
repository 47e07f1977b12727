{#- Seeds of this project: dbt's macro would truncate the table, and so wait for every reader of a view of it. -#}
{% macro postgres__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {%- if model.package_name != 'ciris_scoring' -%}
    {{ return(dbt.default__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
  {%- elif full_refresh -%}
    {%- do drop_in_short_attempts(old_relation) -%}
    {{ return(create_csv_table(model, agate_table)) }}
  {%- endif -%}
  {%- do run_query(publish_deletes(old_relation)) -%}
  {%- do run_query('delete from ' ~ old_relation) -%}
  {{ return('delete from ' ~ old_relation) }}
{% endmacro %}

{#- SQL that lets rows of a seed be deleted where all tables are published for replication: a seed has no primary key, so
    its rows are found by all columns. Nothing is done, and nothing locked, once that is set. -#}
{% macro publish_deletes(seed) -%}
  {{ in_short_attempts(
    seed,
    'alter table ' ~ seed ~ ' replica identity full;',
    unless="(select c.relreplident = 'f' from pg_class as c where c.oid = to_regclass(" ~ literal(seed) ~ "))"
  ) }}
{%- endmacro %}

{#- Fixtures of unit tests: dbt knows an array column only as ARRAY; those arrays hold numbers. -#}
{% macro postgres__safe_cast(field, type) -%}
  cast({{ field }} as {{ 'numeric[]' if type == 'ARRAY' else type }})
{%- endmacro %}
