{#- The value in force of one parameter, as it is written into the SQL: the override, else the default. -#}
{% macro scoring_parameter(name) %}
  {%- set definition = scoring_parameter_definitions()[name] -%}
  {{ return((var('scoring_parameters', {}) or {}).get(name, definition['default'])) }}
{% endmacro %}
