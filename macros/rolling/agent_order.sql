{#- The order of an agent's traces (section 2). Rows that do not count are kept apart from those that do. The last
    key is for tables without the production key, so that a rerun orders complete ties as before. -#}
{% macro agent_order() -%}
  partition by agent_id_hash collate "C", is_counted
  order by traced_at, audit_sequence_number, trace_id collate "C", content_hash
{%- endmacro %}
