{#- Name a schema without the target's schema as prefix, and with an optional suffix. Many teams use such a macro. -#}
{% macro generate_schema_name(custom_schema_name, node) -%}
  {{ (custom_schema_name or target.schema) ~ var('schema_suffix', '') }}
{%- endmacro %}
