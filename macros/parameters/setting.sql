{#- A variable of the project, by its name without the prefix that keeps it apart from other projects' variables. -#}
{% macro setting(name) %}
  {{ return(var('ciris_' ~ name)) }}
{% endmacro %}
