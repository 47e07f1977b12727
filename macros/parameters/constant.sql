{#- A value that SQL and Python share. The Python package has it, in ciris_scoring.for_macros, and dbt's adapter hands it on
    (dbt_postgres_python). An empty mapping while dbt parses, and where the package is missing, which check_package
    refuses. -#}
{% macro constant(name) %}
  {%- set is_there = execute and adapter.ciris_scoring_constants is defined -%}
  {{ return(adapter.ciris_scoring_constants().get(name, {}) if is_there else {}) }}
{% endmacro %}
