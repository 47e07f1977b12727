{#- Post-hook of every model: the planner's statistics of an incremental table that was just written, of the columns by
    which it is read, those of its indexes. The others can wait for autovacuum. An increment takes a tenth of the usual
    sample, whose reading is most of the cost, and waits for no autovacuum. -#}
{% macro update_statistics() -%}
  {%- set meta = config.get('meta', {}) -%}
  {%- if config.get('materialized') == 'incremental' and config.get('indexes') and ('scored_range' in meta or 'judged_range' in meta or 'rewritten' in meta) -%}
    {%- if is_incremental() -%}
    {{ set_local({'default_statistics_target': 10}) }}
    analyze (skip_locked)
    {%- else -%}
    analyze
    {%- endif %} {{ this }} ({{ config.get('indexes', []) | map(attribute='columns') | sum(start=[]) | unique | join(', ') }})
  {%- endif -%}
{%- endmacro %}
