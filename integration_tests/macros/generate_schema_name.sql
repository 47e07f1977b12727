{#- Schemas by their own names, without the target's before them and with a suffix where asked, as many teams
    have it. -#}
{% macro generate_schema_name(custom_schema_name, node) -%}
  {{ (custom_schema_name or target.schema) ~ var('schema_suffix', '') }}
{%- endmacro %}
