{#- Relation with the agents of a CTE, to look up their rows of an earlier run. On a cluster it has all agents of
    int_agents (none before the first run), because the coordinator would otherwise do the look-ups. -#}
{% macro agents_in(cte) -%}
  {%- if is_distributed() -%}
    {{ relation_as_left('int_agents') or '(select null::text as agent_id_hash where false)' }}
  {%- else -%}
    (select distinct {{ cte }}.agent_id_hash from {{ cte }})
  {%- endif -%}
{%- endmacro %}
