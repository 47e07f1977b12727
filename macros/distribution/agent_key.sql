{#- The column that distributes traces and verdicts on a cluster: the agent as recorded, because a blank one needs a
    place too. On plain PostgreSQL agent_id_hash. -#}
{% macro agent_key() -%}
  {{ 'agent_key' if is_distributed() else 'agent_id_hash' }}
{%- endmacro %}

{#- In a list of columns: agent_key, on a cluster only. -#}
{% macro agent_key_column() -%}
  {%- if is_distributed() %}agent_key,{% endif -%}
{%- endmacro %}

{#- First in a window's partition by agent, so that workers compute it. -#}
{% macro within_agent(alias=none) -%}
  {%- if is_distributed() %}{{ alias ~ '.' if alias }}agent_key, {% endif -%}
{%- endmacro %}
