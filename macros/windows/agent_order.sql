{#- An agent's traces in order (scoring.md §2), for a window function. Naming the period spares a later sort by it; the
    last key settles complete ties. alias: of the relation, if needed. -#}
{% macro agent_order(alias=none) -%}
  {%- set prefix = '' if alias is none else alias ~ '.' -%}
  partition by {{ of_agent(prefix) }}
  order by
    {{ prefix }}period_start, {{ prefix }}traced_at, {{ prefix }}audit_sequence_number,
    {{ prefix }}trace_id collate "C", {{ prefix }}trace_verdict_id
{%- endmacro %}

{#- An agent, for `partition by`: collate "C" sorts fastest, and the column itself tells a cluster that workers can
    compute the window. prefix: of the column, if needed. -#}
{% macro of_agent(prefix='') -%}
  {{ prefix }}agent_id_hash collate "C", {{ prefix }}agent_id_hash
{%- endmacro %}
