{#- The sum over a half-open range: the total at its end less the one at its start, 0 before the agent's first trace.
    Totals are integers or exact decimals, so nothing is lost. name: a column of int_agent_totals; until, since: aliases
    of the rows. -#}
{% macro window_sum(name, until, since) -%}
  {%- set places = window_arrays().get(name) -%}
  {%- if places is none -%}
    coalesce({{ until }}.{{ name }}, 0) - coalesce({{ since }}.{{ name }}, 0)
  {%- else -%}
    {{ array_of_each(places, 'coalesce(' ~ until ~ '.' ~ name ~ '[$i], 0) - coalesce(' ~ since ~ '.' ~ name ~ '[$i], 0)') }}
  {%- endif -%}
{%- endmacro %}

{#- Lateral subquery: an agent's last row of totals before a moment. No row before its first trace. -#}
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
