{#- SQL that analyses a table just written: the columns of its key and indexes; all, if the table is made anew. An
    increment takes a tenth of the usual sample, whose reading is most of the cost, and skips a table that autovacuum
    locks. -#}
{% macro update_statistics() -%}
  {%- set columns = config.get('indexes', []) | map(attribute='columns') | sum(start=[]) -%}
  {%- for constraint in model.constraints if constraint.type == 'primary_key' -%}
    {%- do columns.extend(constraint.columns) -%}
  {%- endfor -%}
  {%- set rewritten = config.get('meta').get('rewritten') -%}
  {%- if rewritten == 'anew' -%}
    analyze {{ this }}
  {%- elif columns -%}
    {%- if is_incremental() -%}
    {{ set_local({'default_statistics_target': 10}) }}
    analyze (skip_locked)
    {%- else -%}
    analyze
    {%- endif %} {{ this }} ({{ columns | unique | join(', ') }})
  {%- endif -%}
{%- endmacro %}
