{#- For fixtures of unit tests: dbt knows an array column only as ARRAY. Those in fixtures hold numbers, written
    '{1,2}'. -#}
{% macro postgres__safe_cast(field, type) -%}
  cast({{ field }} as {{ 'numeric[]' if type == 'ARRAY' else type }})
{%- endmacro %}
