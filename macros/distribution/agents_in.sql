{#- The agents of a CTE, to look up their rows of an earlier run. On a cluster all agents of a table, else the
    coordinator would do the look-ups; none if no run has written that table. -#}
{% macro agents_in(cte) -%}
  {%- if is_distributed() -%}
    {{ relation_as_left('int_agents') or '(select null::text as agent_id_hash where false)' }}
  {%- else -%}
    (select distinct {{ cte }}.agent_id_hash from {{ cte }})
  {%- endif -%}
{%- endmacro %}
