{#- For a CTE that is read more than once: on a cluster a materialized one is computed by the coordinator. -#}
{% macro inlined() -%} {%- if is_distributed() %}not materialized {% endif -%} {%- endmacro %}
