{#- One spelling per value, for publishing and hashing: 5 and 5.0 are the same. Default: the value in force. -#}
{% macro scoring_parameter_text(name, value=none) %}
  {%- set kind = scoring_parameter_definitions()[name]['kind'] -%}
  {%- set value = scoring_parameter(name) if value is none else value -%}
  {%- if kind == 'number' -%} {{ return((value | float) | string) }}
  {%- elif kind == 'boolean' -%} {{ return('true' if value else 'false') }}
  {%- else -%} {{ return(value | string) }}
  {%- endif -%}
{% endmacro %}
