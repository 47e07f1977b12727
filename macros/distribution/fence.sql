{#- At the end of a step: makes PostgreSQL work it out before the next one. On a cluster it would bring the step's rows to
    the coordinator; there fence_column does it. -#}
{% macro fence() -%}
  {%- if not is_distributed() %}offset bigint '0'{% endif -%}
{%- endmacro %}

{#- At the head of a step's columns: the same on a cluster, as PostgreSQL does not merge a query that may return several
    rows for one with the query around it. -#}
{% macro fence_column(step) -%}
  {%- if is_distributed() %}generate_series(1, 1) as {{ step }}_fence,{% endif -%}
{%- endmacro %}
