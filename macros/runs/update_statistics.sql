{#- Post-hook: the planner's statistics of a table that was just written, of the columns by which it is read: those of
    its indexes and of its range. The others can wait for autovacuum. An increment takes a tenth of the usual sample,
    whose reading is most of the cost, and waits for no autovacuum. -#}
{% macro update_statistics() -%}
  {%- set columns = config.get('indexes', []) | map(attribute='columns') | sum(start=[]) -%}
  {%- if is_incremental() -%}
  set local default_statistics_target = 10;
  analyze (skip_locked)
  {%- else -%}
  analyze
  {%- endif %} {{ this }} ({{ (columns + [config.get('meta')['range_column']]) | unique | join(', ') }})
{%- endmacro %}
