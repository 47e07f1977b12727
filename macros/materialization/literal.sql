{#- A text, or the name of a relation, as a literal of SQL. -#}
{% macro literal(text) %}
  {{ return("'" ~ text | string | replace("'", "''") ~ "'") }}
{% endmacro %}
