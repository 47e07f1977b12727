{#- One spelling per value (5 and 5.0 are the same parameter set), for publishing and hashing. -#}
{% macro scoring_parameter_text(name) %}
  {%- set kind = scoring_parameter_definitions()[name]['kind'] -%}
  {%- set value = scoring_parameter(name) -%}
  {%- if kind == 'number' -%} {{ return((value | float) | string) }}
  {%- elif kind == 'boolean' -%} {{ return('true' if value else 'false') }}
  {%- else -%} {{ return(value | string) }}
  {%- endif -%}
{% endmacro %}
