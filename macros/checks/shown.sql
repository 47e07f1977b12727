{#- A value as a message shows it: text in quotes, so that '6' differs from 6. -#}
{% macro shown(value) %}
  {%- if value is string -%} {{ return("'" ~ value ~ "'") }}
  {%- elif value is none -%} {{ return('null') }}
  {%- elif value is boolean -%} {{ return('true' if value else 'false') }}
  {%- else -%} {{ return(value | string) }}
  {%- endif -%}
{% endmacro %}
