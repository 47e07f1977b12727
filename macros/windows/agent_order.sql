{#- The order of an agent's traces (scoring.md §2), for a window. Periods follow from times, but naming them spares the
    sort by period that comes after. The last key settles complete ties, which production's key excludes, as everywhere.
    alias: of the relation whose columns they are, if needed. -#}
{% macro agent_order(alias=none) -%}
  {%- set prefix = '' if alias is none else alias ~ '.' -%}
  partition by {{ within_agent(alias) }}{{ prefix }}agent_id_hash collate "C"
  order by
    {{ prefix }}period_start, {{ prefix }}traced_at, {{ prefix }}audit_sequence_number,
    {{ prefix }}trace_id collate "C", {{ prefix }}trace_verdict_id
{%- endmacro %}
