{#- Optimization barrier at the end of a subquery: PostgreSQL computes its columns once, before the next step. On a
    cluster an offset would bring all rows to the coordinator. There a constant order has the same effect, but it prevents
    parallel plans of the next steps. -#}
{% macro optimization_barrier() -%}
  {{ 'order by 1 + 0' if is_distributed() else "offset bigint '0'" }}
{%- endmacro %}
