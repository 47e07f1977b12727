{#- The value in force of one parameter, as it is written into the SQL: the override, else the default. -#}
{% macro scoring_parameter(name) %}
  {%- set definition = scoring_parameter_definitions()[name] -%}
  {%- set overrides = setting('scoring_parameters') -%}
  {#- What is no dictionary is refused before anything is built, by check_scoring_parameters. -#}
  {{ return(overrides.get(name, definition['default']) if overrides is mapping else definition['default']) }}
{% endmacro %}
