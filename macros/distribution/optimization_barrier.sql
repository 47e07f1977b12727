{#- Optimization barrier at the end of a subquery: PostgreSQL computes the subquery's columns once, before the next
    step. A plain `offset 0` would prevent a parallel scan; an offset of type bigint does not. On a cluster an offset
    would bring all rows to the coordinator, so a constant order is used there. This order has the same effect, but
    prevents parallel plans of the next steps. looked_up: the subquery is lateral and reads the rows of one agent. On a
    cluster such a subquery does not get a barrier, because the coordinator must see that one worker has all rows. -#}
{% macro optimization_barrier(looked_up=false) -%}
  {%- if not is_distributed() -%} offset bigint '0' {%- elif not looked_up -%} order by 1 + 0 {%- endif -%}
{%- endmacro %}

{#- Keyword of a CTE that several subqueries read. PostgreSQL computes such a CTE once. On a cluster its rows would then be
    on the coordinator, so it is computed with each of these subqueries on the workers. -#}
{% macro on_workers() -%}
  {{ 'not materialized' if is_distributed() }}
{%- endmacro %}
