{#- Overrides dbt's macro for this project's seeds: it would truncate a seed, and wait for whoever reads a view of it. -#}
{% macro postgres__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {%- if model.package_name != 'ciris_scoring' -%}
    {{ return(dbt.default__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
  {%- elif full_refresh -%}
    {%- do drop_in_short_attempts(old_relation) -%}
    {{ return(create_csv_table(model, agate_table)) }}
  {%- endif -%}
  {%- do run_query('delete from ' ~ old_relation) -%}
  {{ return('delete from ' ~ old_relation) }}
{% endmacro %}
