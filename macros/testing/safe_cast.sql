{#- For fixtures of unit tests: of a column that is an array dbt is told no more than that. Those that fixtures have rows
    for hold numbers, written '{1,2}'. -#}
{% macro postgres__safe_cast(field, type) -%}
  cast({{ field }} as {{ 'numeric[]' if type == 'ARRAY' else type }})
{%- endmacro %}
