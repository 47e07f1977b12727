{% macro literal(text) %}
  {{ return("'" ~ text | string | replace("'", "''") ~ "'") }}
{% endmacro %}
