{#- What a score lost through each of its parts, and what a change of the score came from (certainty.md §1 and 2). The
    losses are those of int_window_statistics. -#}

{#- certainty.md §1: the parts in the order of the table, each with its factor. -#}
{% macro attributed_parts() %}
  {{ return({
    'd_identity': 'C', 'k_contradiction': 'C', 'i_chain': 'I_int', 'i_coverage': 'I_int', 'i_replay': 'I_int',
    'r_ceiling': 'R', 'delta_drift': 'R', 'mttr_hours': 'R', 'rho_regression': 'R',
    'ece': 'I_inc', 'u_unsafe': 'I_inc', 'q_deferral': 'I_inc', 's_score': 'S',
  }) }}
{% endmacro %}

{#- certainty.md §4: the nine that are behaviour, in the order of the arrays of int_window_statistics. -#}
{% macro parts_of_behaviour() %}
  {{ return(attributed_parts() | reject('in', ['r_ceiling', 'mttr_hours', 'rho_regression', 'q_deferral']) | list) }}
{% endmacro %}

{#- The parts in words, as messages name them; ciris_scoring.reading.words says the same. -#}
{% macro part_words() %}
  {{ return({
    'd_identity': 'changes of name', 'k_contradiction': 'overridden actions', 'i_chain': 'broken chain of evidence',
    'i_coverage': 'missing fields', 'i_replay': 'decisions that do not replay', 'r_ceiling': 'fixed cost',
    'delta_drift': 'drift', 'mttr_hours': 'slow recovery', 'rho_regression': 'relapses',
    'ece': 'overconfidence', 'u_unsafe': 'unsafe actions', 'q_deferral': 'deferrals judged poor',
    's_score': 'incoherent signals',
  }) }}
{% endmacro %}

{#- SQL for a part in words, with its column beside them. -#}
{% macro named_part(part) -%}
  case {{ part }}
    {%- for name, words in part_words().items() %}
    when '{{ name }}' then '{{ words }} ({{ name }})'
    {%- endfor %}
  end
{%- endmacro %}

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
