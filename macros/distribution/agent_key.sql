{#- The column of the traces and their verdicts by which they are distributed: the agent as it was recorded, since a blank
    one has to stand somewhere too. Elsewhere, and on plain PostgreSQL, agent_id_hash. -#}
{% macro agent_key() -%}
  {{ 'agent_key' if is_distributed() else 'agent_id_hash' }}
{%- endmacro %}

{#- In a list of columns: the same, where it is a column of its own. -#}
{% macro agent_key_column() -%}
  {%- if is_distributed() %}agent_key,{% endif -%}
{%- endmacro %}

{#- At the head of a window's partition by the cleaned agent: lets workers do what is of one agent. -#}
{% macro within_agent(alias=none) -%}
  {%- if is_distributed() %}{{ alias ~ '.' if alias }}agent_key, {% endif -%}
{%- endmacro %}
