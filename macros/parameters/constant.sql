{#- A value that SQL and Python share. The Python package defines it (ciris_scoring.job.for_macros), and dbt's adapter hands
    it on (dbt_postgres_python). otherwise: what it is where the package is missing, so that the project can still be parsed
    until check_package refuses. -#}
{% macro constant(name, otherwise=[]) %}
  {%- set value = adapter.ciris_scoring_constants()[name] if adapter.ciris_scoring_constants is defined else otherwise -%}
  {{ return(value if value is mapping or value is string or value is not iterable else value | list) }}
{% endmacro %}
