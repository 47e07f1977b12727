{#- The order of an agent's traces (section 2). Periods follow from times, but naming them spares the sort by period
    that comes after. The last key is for tables without the production key, so that a rerun orders complete ties as
    before. -#}
{% macro agent_order() -%}
  partition by agent_id_hash collate "C"
  order by period_start, traced_at, audit_sequence_number, trace_id collate "C", content_hash
{%- endmacro %}
