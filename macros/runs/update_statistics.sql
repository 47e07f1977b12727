{#- Post-hook: the planner's statistics of a table that was just written. An increment looks only at the two columns by
    which the table is read, in a tenth of the usual sample, whose reading is most of the cost; the others keep what the
    last build from nothing, or autovacuum, found. -#}
{% macro update_statistics() -%}
  {%- if is_incremental() -%}
  set local default_statistics_target = 10;
  analyze {{ this }} (agent_id_hash, {{ config.get('meta')['range_column'] }})
  {%- else -%}
  analyze {{ this }}
  {%- endif %}
{%- endmacro %}
