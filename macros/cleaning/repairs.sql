{#- Name of an issue if cleaning replaced a value that was sent by null. -#}
{% macro lost(issue, sent, cleaned) -%}
  case when {{ sent }} is not null and {{ cleaned }} is null then '{{ issue }}' end
{%- endmacro %}
