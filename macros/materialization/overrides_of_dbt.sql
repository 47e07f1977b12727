{#- Empty a seed with DELETE, also in a full refresh. dbt's macro uses TRUNCATE or drops the table, which waits for readers
    of views on the seed, or drops the views. -#}
{% macro postgres__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {%- if model.package_name != 'ciris_scoring' -%}
    {{ return(dbt.default__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
  {%- endif -%}
  {%- do run_query('delete from ' ~ old_relation) -%}
  {{ return('delete from ' ~ old_relation) }}
{% endmacro %}

{#- Create a seed. A seed has no primary key. In a database with a publication of all tables (logical replication),
    PostgreSQL deletes rows of a table without a primary key only if it has replica identity full. -#}
{% macro postgres__create_csv_table(model, agate_table) %}
  {%- set created = dbt.default__create_csv_table(model, agate_table) -%}
  {%- if model.package_name == 'ciris_scoring' -%} {%- do run_query('alter table ' ~ this ~ ' replica identity full;' ~ distribute(this)) -%} {%- endif -%}
  {{ return(created) }}
{% endmacro %}

{#- Cast of a value in a fixture of a unit test. dbt gives ARRAY as the type of every array column. All arrays in
    fixtures contain numbers. -#}
{% macro postgres__safe_cast(field, type) -%}
  cast({{ field }} as {{ 'numeric[]' if type == 'ARRAY' else type }})
{%- endmacro %}
