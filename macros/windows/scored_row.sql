{#- Lateral subquery: the row of an agent, as-of and window. Looked up by key, behind an offset: PostgreSQL hands a range
    of as-ofs to one side of a join alone, and would read the other whole, with all of history. -#}
{% macro scored_row(rows, agent_id_hash, as_of, window_days) -%}
  (
        select looked_up.*
        from {{ rows }} as looked_up
        where
            looked_up.agent_id_hash = {{ agent_id_hash }}
            and looked_up.as_of = {{ as_of }}
            and looked_up.window_days = {{ window_days }}
        {{ fence() }}
    )
{%- endmacro %}
