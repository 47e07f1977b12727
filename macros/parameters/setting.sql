{#- A variable of the project, named without its prefix ciris_. -#}
{% macro setting(name) %}
  {{ return(var('ciris_' ~ name)) }}
{% endmacro %}
