{#- Optimization barrier: PostgreSQL computes this step before the next one. On a cluster an offset would bring all rows
    to the coordinator; fence_column is used there. -#}
{% macro optimization_barrier() -%}
  {%- if not is_distributed() %}offset bigint '0'{% endif -%}
{%- endmacro %}

{#- Optimization barrier on a cluster, before the columns of a step: PostgreSQL does not merge a query with a
    set-returning function into the query around it. -#}
{% macro fence_column(step) -%}
  {%- if is_distributed() %}generate_series(1, 1) as {{ step }}_fence,{% endif -%}
{%- endmacro %}
