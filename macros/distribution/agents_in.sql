{#- The agents of a CTE, to look up where an earlier run left each. On a cluster all agents that an earlier run knew, out
    of a table, or the look-ups would be the coordinator's; none where that run ended before it knew any. -#}
{% macro agents_in(cte) -%}
  {%- if is_distributed() -%}
    {{ relation_as_left('int_agents') or '(select null::text as agent_id_hash where false)' }}
  {%- else -%}
    (select distinct {{ cte }}.agent_id_hash from {{ cte }})
  {%- endif -%}
{%- endmacro %}
