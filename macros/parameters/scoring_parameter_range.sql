{#- The allowed range in words, for messages and the published table. -#}
{% macro scoring_parameter_range(name) %}
  {%- set definition = scoring_parameter_definitions()[name] -%}
  {%- if definition['kind'] == 'boolean' -%} {{ return('true or false') }}
  {%- elif definition['kind'] == 'text' -%} {{ return('any text') }}
  {%- elif definition['kind'] == 'integer' -%}
    {{ return('whole number in [' ~ definition['minimum'] ~ ', ' ~ definition['maximum'] ~ ']') }}
  {%- else -%} {{ return('number in [' ~ definition['minimum'] ~ ', ' ~ definition['maximum'] ~ ']') }}
  {%- endif -%}
{% endmacro %}
