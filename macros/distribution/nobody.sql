{#- The agent of a trace: empty text, if it is missing, blank or oversized (scoring.md §2). On a cluster the text as sent,
    because workers keep a row where the source has it. -#}
{% macro agent_or_nobody() -%}
  {{ 'agent_id_hash_as_sent' if is_distributed() else "coalesce(agent_id_hash, '')" }}
{%- endmacro %}

{#- Whether such a row has no agent. alias: of the relation, if needed. -#}
{% macro is_nobodys(alias=none) -%}
  {%- set agent = 'agent_id_hash' if alias is none else alias ~ '.agent_id_hash' -%}
  {{ clean_id(agent) ~ ' is null' if is_distributed() else agent ~ " = ''" }}
{%- endmacro %}
