{#- Order of an agent's traces (scoring.md §2), for a window function. It begins with the period, so that no later sort
    by period is necessary. The last column orders rows that are equal in all others. alias: alias of the relation. -#}
{% macro agent_order(alias=none) -%}
  {%- set prefix = '' if alias is none else alias ~ '.' -%}
  partition by {{ of_agent(prefix, sent_agent()) }}
  order by
    {{ prefix }}period_start, {{ prefix }}traced_at, {{ prefix }}audit_sequence_number,
    {{ prefix }}trace_id collate "C", {{ prefix }}trace_check_id
{%- endmacro %}

{#- Columns of the agent for `partition by`. The collation "C" sorts fastest. agent_id_hash is repeated without a
    collation, because a cluster computes the window function on the workers only if it finds the distribution column
    itself. prefix: alias and point before the column. column: the distribution column. -#}
{% macro of_agent(prefix='', column='agent_id_hash') -%}
  {{ prefix }}agent_id_hash collate "C", {{ prefix }}{{ column }}
{%- endmacro %}

{#- Order of an agent's events (int_agent_events) for `order by`, the oldest first. -#}
{% macro oldest_first() -%}
  traced_at, audit_sequence_number, trace_id collate "C", agent_event_id
{%- endmacro %}

{#- Order of an agent's traces or events for `order by`, the newest first. key: the column that orders rows with equal
    values in all other columns, such as trace_check_id. alias: alias of the relation. -#}
{% macro newest_first(key, alias) -%}
  {% for column, direction in constant('newest_first') %}{{ alias }}.{{ column }} {{ direction }}, {% endfor %}
  {{- alias }}.{{ key }} desc
{%- endmacro %}
