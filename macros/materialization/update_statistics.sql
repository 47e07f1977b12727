{#- SQL that analyses the table of a model just written: the columns of its key and indexes; all, if the table is
    recreated. An increment takes a tenth of the usual sample, whose reading is most of the cost, and skips a table that
    autovacuum locks. -#}
{% macro update_statistics(node, table, is_increment) -%}
  {%- set columns = (node.config.get('indexes') or []) | map(attribute='columns') | sum(start=[]) -%}
  {%- for constraint in node.constraints if constraint.type == 'primary_key' -%}
    {%- do columns.extend(constraint.columns) -%}
  {%- endfor -%}
  {%- if columns -%}
    {{ set_local({'default_statistics_target': 10 if is_increment else 100}) }}
    analyze {{ '(skip_locked)' if is_increment }} {{ table }} ({{ columns | unique | join(', ') }});
  {%- endif -%}
{%- endmacro %}
