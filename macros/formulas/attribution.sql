{#- Loss components of a score, and causes of its change (certainty.md §1 and 2). -#}

{#- certainty.md §2: logarithmic mean of a and b, which turns changes of losses into points (logarithmic mean Divisia
    index, Ang 2005, Energy Policy 33, 867-871). It is a if a and b are equal. -#}
{% macro logarithmic_mean(a, b) -%}
  (case
    when {{ a }} = {{ b }} then {{ a }}
    when least({{ a }}, {{ b }}) <= 0 then 0
    when abs({{ a }} - {{ b }}) < 0.5 * ({{ a }} + {{ b }})
      then ({{ a }} - {{ b }}) / (2 * atanh(({{ a }} - {{ b }}) / ({{ a }} + {{ b }})))
    else ({{ a }} - {{ b }}) / (ln({{ a }}) - ln({{ b }}))
  end)
{%- endmacro %}

{#- Earlier as-ofs with which a score is compared (certainty.md §2), as rows of compared_with and compared_as_of. The
    rows come from a function, so that the workers of a cluster can join them to the scores. VALUES would bring all
    scores to the coordinator. -#}
{% macro earlier_as_ofs(as_of, window_days) %}
  (
    select
      compared_with,
      {{ as_of }} - case when compared_with = 'window' then {{ days(window_days) }} else {{ period_length() }} end
    from unnest(array['window', 'as_of']) as earlier (compared_with)
  )
{%- endmacro %}

{#- Lateral subquery that returns the row of `rows` for an agent, as-of and window. rows: a relation with the alias
    looked_up. Without the optimization barrier PostgreSQL would join the whole history, because it applies a range of
    as-ofs to only one side of a join. -#}
{% macro scored_row(rows, agent_id_hash, as_of, window_days) -%}
  (
        select looked_up.*
        from {{ rows }}
        where
            looked_up.agent_id_hash = {{ agent_id_hash }}
            and looked_up.as_of = {{ as_of }}
            and looked_up.window_days = {{ window_days }}
        {{ optimization_barrier(looked_up=true) }}
    )
{%- endmacro %}
