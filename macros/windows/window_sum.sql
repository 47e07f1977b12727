{#- Sum over the half-open stretch between two period ends, from totals since the agent's first trace: the total at the
    end less the one at the start, which is 0 before the agent began. Totals are integers or exact numerics, so nothing
    is lost in the difference. name: a column of int_agent_totals; until, since: the aliases of its rows at both ends. -#}
{% macro window_sum(name, until, since) -%}
  {%- set places = window_arrays().get(name) -%}
  {%- if places is none -%}
    coalesce({{ until }}.{{ name }}, 0) - coalesce({{ since }}.{{ name }}, 0)
  {%- else -%}
    {{ array_of_each(places, 'coalesce(' ~ until ~ '.' ~ name ~ '[$i], 0) - coalesce(' ~ since ~ '.' ~ name ~ '[$i], 0)') }}
  {%- endif -%}
{%- endmacro %}

{#- Lateral subquery: an agent's row of a table of totals before a moment, the start of a period. No row before the agent's
    first trace. -#}
{% macro totals_before(table, agent_id_hash, moment) -%}
  (
        select totals.*
        from {{ table }} as totals
        where
            totals.agent_id_hash = {{ agent_id_hash }}
            and totals.period_start < {{ moment }}
        order by totals.period_start desc
        limit 1
    )
{%- endmacro %}
