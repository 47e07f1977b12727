{#- Post-hook: the planner's statistics of a table that was just written. An increment looks at the two columns by
    which the table is read only; the others keep what the last build from nothing, or autovacuum, found. -#}
{% macro update_statistics() -%}
  analyze {{ this }}
  {%- if is_incremental() %} (agent_id_hash, {{ config.get('meta')['range_column'] }}){% endif %}
{%- endmacro %}
