{#- For a CTE that is read more than once: on a cluster a materialized one is computed by the coordinator. -#}
{% macro inlined() -%} {%- if is_distributed() %}not materialized {% endif -%} {%- endmacro %}

{#- For a small CTE about all agents: on a cluster the coordinator computes it once and sends it to the workers. -#}
{% macro worked_out_once() -%} {%- if is_distributed() %}materialized {% endif -%} {%- endmacro %}
