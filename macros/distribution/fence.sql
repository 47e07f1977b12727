{#- Ends a step: PostgreSQL computes it before the next one. On a cluster an offset would bring all rows to the
    coordinator; there fence_column does it. -#}
{% macro fence() -%}
  {%- if not is_distributed() %}offset bigint '0'{% endif -%}
{%- endmacro %}

{#- Begins the columns of a step, on a cluster: PostgreSQL does not merge a query with a set-returning function into the
    query around it. -#}
{% macro fence_column(step) -%}
  {%- if is_distributed() %}generate_series(1, 1) as {{ step }}_fence,{% endif -%}
{%- endmacro %}
