{#- The value of a parameter: the override, else the default. -#}
{% macro scoring_parameter(name) %}
  {%- set definition = scoring_parameter_definitions()[name] -%}
  {%- set overrides = setting('scoring_parameters') -%}
  {#- check_scoring_parameters refuses anything but a dictionary. -#}
  {{ return(overrides.get(name, definition['default']) if overrides is mapping else definition['default']) }}
{% endmacro %}
