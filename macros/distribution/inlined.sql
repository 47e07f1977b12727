{#- Of a CTE that is read more than once, on a cluster: PostgreSQL would work it out once, which Citus does on the
    coordinator; worked out at each reading, it stays with the workers. -#}
{% macro inlined() -%} {%- if is_distributed() %}not materialized {% endif -%} {%- endmacro %}

{#- Of a small CTE about all agents: on a cluster the coordinator works it out once, and every worker gets it. -#}
{% macro worked_out_once() -%} {%- if is_distributed() %}materialized {% endif -%} {%- endmacro %}
