{#- Optimization barrier: PostgreSQL computes this step before the next one. On a cluster an offset would bring all rows
    to the coordinator; fence_column is used there. -#}
{% macro fence() -%}
  {%- if not is_distributed() %}offset bigint '0'{% endif -%}
{%- endmacro %}

{#- Optimization barrier on a cluster, before the columns of a step: PostgreSQL does not merge a query with a
    set-returning function into the query around it. -#}
{% macro fence_column(step) -%}
  {%- if is_distributed() %}generate_series(1, 1) as {{ step }}_fence,{% endif -%}
{%- endmacro %}

{#- The agent of a trace; empty text if it is missing, blank or oversized (scoring.md §2). On a cluster it is the text
    as sent, because a row must stay on the worker of its source row. -#}
{% macro agent_or_nobody() -%}
  {{ 'agent_id_hash_as_sent' if is_distributed() else "coalesce(agent_id_hash, '')" }}
{%- endmacro %}

{#- Whether a row of int_trace_verdicts has no agent. alias: of the relation. -#}
{% macro is_nobodys(alias=none) -%}
  {%- set agent = 'agent_id_hash' if alias is none else alias ~ '.agent_id_hash' -%}
  {{ clean_id(agent) ~ ' is null' if is_distributed() else agent ~ " = ''" }}
{%- endmacro %}
