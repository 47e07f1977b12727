{#- What a score lost through each of its parts, and what a change of the score came from (certainty.md §1 and 2). The
    losses are those of int_windows. -#}

{#- certainty.md §2: (a - b) / (ln a - ln b), by which changes of losses become points; a where they are the same. -#}
{% macro logarithmic_mean(a, b) -%}
  (case
    when {{ a }} = {{ b }} then {{ a }}
    when least({{ a }}, {{ b }}) <= 0 then 0
    when abs({{ a }} - {{ b }}) < 0.5 * ({{ a }} + {{ b }})
      then ({{ a }} - {{ b }}) / (2 * atanh(({{ a }} - {{ b }}) / ({{ a }} + {{ b }})))
    else ({{ a }} - {{ b }}) / (ln({{ a }}) - ln({{ b }}))
  end)
{%- endmacro %}

{#- The end of a subquery of one row that reads no relation. The offset keeps the planner from copying its expressions
    into every place of the query around it that names them. -#}
{% macro once() -%}
  from (values (1)) as once (n)
  offset bigint '0'
{%- endmacro %}

{#- certainty.md §2: the as-ofs that a score is compared with, as rows of compared_with and compared_as_of. Not as
    values, which no worker of a cluster takes. -#}
{% macro earlier_as_ofs(as_of, window_days) %}
  (
    select
      compared_with,
      {{ as_of }} - case when compared_with = 'window' then {{ days(window_days) }} else {{ period_length() }} end
    from unnest(array['window', 'as_of']) as earlier (compared_with)
  )
{%- endmacro %}
