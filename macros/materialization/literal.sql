{#- A text, or a relation's name, as an SQL literal. -#}
{% macro literal(text) %}
  {{ return("'" ~ text | string | replace("'", "''") ~ "'") }}
{% endmacro %}
