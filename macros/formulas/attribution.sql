{#- What a score lost through each of its parts, and what a change of the score came from (certainty.md §1 and 2).
    Arguments are SQL expressions, best names of columns, since some stand more than once in the result; results are
    double precision. A loss is the part's share of -ln(capacity_score); an infinite one is null. PostgreSQL 15 has
    neither log1p nor expm1, but its hyperbolic functions are exact near 0. -#}

{#- certainty.md §1: the parts in the order of the table, each with its factor. -#}
{% macro attributed_parts() %}
  {{ return({
    'd_identity': 'C', 'k_contradiction': 'C', 'i_chain': 'I_int', 'i_coverage': 'I_int', 'i_replay': 'I_int',
    'r_ceiling': 'R', 'delta_drift': 'R', 'mttr_hours': 'R', 'rho_regression': 'R',
    'ece': 'I_inc', 'u_unsafe': 'I_inc', 'q_deferral': 'I_inc', 's_score': 'S',
  }) }}
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

{#- The parts that share the loss of R beyond its ceiling. -#}
{% macro resilience_parts() %}
  {{ return(['delta_drift', 'mttr_hours', 'rho_regression']) }}
{% endmacro %}

{#- The components, beside s_score, that the losses are made of. -#}
{% macro attributed_components() %}
  {{ return(attributed_parts() | reject('in', ['r_ceiling', 's_score']) | list) }}
{% endmacro %}

{#- The parameters that the losses are made with. -#}
{% macro attribution_parameters() %}
  {{ return(['lambda_c', 'mu_c', 'integrity_floor', 'mttr_scale_hours', 'norm_k', 'norm_x0']) }}
{% endmacro %}

{#- Query of the published scores that are not null, with what losses are made of. -#}
{% macro published_with_components() -%}
  select
    agent_id_hash,
    as_of,
    window_days,
    capacity_score,
    s_score,
    parameter_set_id,
    {{ attributed_components() | join(', ') }}
  from {{ ref('fct_capacity_scores') }}
  where capacity_score is not null
{%- endmacro %}

{#- Query of the parameters that losses are made with, one row per published parameter set. -#}
{% macro attribution_parameter_values() -%}
  select
    parameter_set_id,
    {%- for parameter in attribution_parameters() %}
    max(parameter_value) filter (where parameter_name = '{{ parameter }}')::double precision as {{ parameter }}
    {%- if not loop.last %},{% endif %}
    {%- endfor %}
  from {{ ref('dim_scoring_parameters') }}
  group by parameter_set_id
{%- endmacro %}

{#- ln(1 + x) for x >= 0. -#}
{% macro log_of_one_plus(x) -%}
  (case when {{ x }} < 0.5 then 2 * atanh({{ x }} / (2 + {{ x }})) else ln(1 + {{ x }}) end)
{%- endmacro %}

{#- exp(x) - 1. -#}
{% macro exp_minus_one(x) -%}
  (2 * exp({{ x }} / 2) * sinh({{ x }} / 2))
{%- endmacro %}

{#- certainty.md §1: -ln(value), the loss through a value of which 1 is best. 0 - and not -, which would make -0 of
    0. -#}
{% macro loss_of_value(value) -%}
  (case when {{ value }} > 0 then 0 - ln({{ value }}) end)
{%- endmacro %}

{#- certainty.md §1: -ln(1 - rate), the loss through a rate of which 0 is best. -#}
{% macro loss_of_rate(rate) -%}
  (case
    when {{ rate }} < 0.5 then 2 * atanh({{ rate }} / (2 - {{ rate }}))
    when {{ rate }} < 1 then -ln(1 - {{ rate }})
  end)
{%- endmacro %}

{#- certainty.md §1: what of a total falls to one amount among several: in proportion; infinite (null) ones share it
    alone, equally. whole: their sum. n_infinite: how many are infinite. -#}
{% macro share_of(total, amount, whole, n_infinite) -%}
  (case
    when {{ n_infinite }} > 0 then case when {{ amount }} is null then ({{ total }}) / {{ n_infinite }} else 0 end
    when {{ whole }} > 0 then ({{ total }}) * ({{ amount }} / {{ whole }})
    else 0
  end)
{%- endmacro %}

{#- certainty.md §1: the loss of one of the three parts of I_int, where integrity_floor caps their sum at most. An own
    loss is kept to the bit where the floor is not active, or a part that did not move would seem to have. -#}
{% macro capped_integrity_loss(loss, losses, most) -%}
  (case
    when coalesce({{ losses | join(' + ') }} > {{ most }}, {{ most }} is not null)
      then {{ share_of(most, loss, '(' ~ losses | join(' + ') ~ ')', 'num_nulls(' ~ losses | join(', ') ~ ')') }}
    else {{ loss }}
  end)
{%- endmacro %}

{#- certainty.md §1: -ln norm(1), the fixed cost. norm is the sigmoid of scoring.md §5. -#}
{% macro resilience_ceiling_loss(k, x0) -%}
  {{ log_of_one_plus('exp(-' ~ k ~ ' * (1 - ' ~ x0 ~ '))') }}
{%- endmacro %}

{#- 1 - norm(x). -#}
{% macro complement_of_norm(x, k, x0) -%}
  (1 / (1 + exp({{ k }} * ({{ x }} - {{ x0 }}))))
{%- endmacro %}

{#- certainty.md §1 and 2: h(u1) - h(u0) for u1 >= u0, with h(u) = ln norm(1) - ln norm(exp(-u)), so h(u1) with u0 = 0.
    It is ln(1 + (1 - norm(x0)) (exp(k (x0 - x1)) - 1)) with x = exp(-u), which loses nothing where the two are close.
    An infinite (null) u has x = 0. -#}
{% macro resilience_loss_between(u0, u1, k, x0) -%}
  {%- set x = 'coalesce(exp(-' ~ u0 ~ '), 0)' -%}
  {%- set fall_of_x = x ~ ' * coalesce(-' ~ exp_minus_one('(' ~ u0 ~ ' - ' ~ u1 ~ ')') ~ ', 1)' -%}
  {{ log_of_one_plus(complement_of_norm(x, k, x0) ~ ' * ' ~ exp_minus_one('(' ~ k ~ ' * ' ~ fall_of_x ~ ')')) }}
{%- endmacro %}

{#- certainty.md §2: h(u1) - h(u0), whichever is greater. -#}
{% macro change_of_resilience_loss(u0, u1, k, x0) -%}
  (case
    when {{ u1 }} < {{ u0 }} or {{ u0 }} is null then 0 - {{ resilience_loss_between(u1, u0, k, x0) }}
    else {{ resilience_loss_between(u0, u1, k, x0) }}
  end)
{%- endmacro %}

{#- certainty.md §2: the change of the loss of R per unit of u, with which each part counts by what it moved: the
    quotient of the differences, loss_change being h(u1) - h(u0), and h'(u0) = k x (1 - norm(x)), x = exp(-u0), where
    they are too small. Null where a u is infinite. -#}
{% macro resilience_loss_per_unit(u0, u1, loss_change, k, x0) -%}
  (case
    when abs({{ u1 }} - {{ u0 }}) <= 1e-9
      then {{ k }} * exp(-{{ u0 }}) * {{ complement_of_norm('exp(-' ~ u0 ~ ')', k, x0) }}
    else {{ loss_change }} / ({{ u1 }} - {{ u0 }})
  end)
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

{#- 1 where a loss became infinite (null) or ceased to be, else 0. -#}
{% macro has_turned(before, now) -%}
  (({{ before }} is null) <> ({{ now }} is null))::integer
{%- endmacro %}

{#- certainty.md §2: the change of the loss of a part outside R; null where one of the two is infinite, 0 where both
    are. -#}
{% macro change_of_loss(before, now) -%}
  (case when {{ before }} is null and {{ now }} is null then 0 else {{ now }} - {{ before }} end)
{%- endmacro %}

{#- certainty.md §2: the change of the loss of a part of R, by what its amount moved. Where a u is infinite, and
    per_unit null, the amounts that became infinite or ceased to be share the whole change equally. -#}
{% macro change_of_resilience_part(before, now, per_unit, whole, n_turned) -%}
  (case
    when {{ per_unit }} is not null then ({{ now }} - {{ before }}) * {{ per_unit }}
    when {{ has_turned(before, now) }} = 1 then {{ whole }} / {{ n_turned }}
    else 0
  end)
{%- endmacro %}

{#- certainty.md §2: the points of a part, a gain positive. per_loss: logarithmic mean of the scores before and now.
    Where one of the two is 0, the parts that have turned share the change of the score equally. -#}
{% macro points_of_change(loss_change, has_turned, n_turned, score_before, score_now, per_loss) -%}
  (case
    when least({{ score_before }}, {{ score_now }}) > 0 then (0 - {{ loss_change }}) * {{ per_loss }}
    when {{ has_turned }} = 1 then ({{ score_now }} - {{ score_before }}) / {{ n_turned }}
    else 0
  end)
{%- endmacro %}

{#- The end of a subquery of one row that reads no relation. The offset keeps the planner from copying its expressions
    into every place of the query around it that names them. -#}
{% macro once() -%}
  from (values (1)) as once (n)
  offset bigint '0'
{%- endmacro %}

{#- certainty.md §1: a subquery of one row, the losses of the thirteen parts of a score; beside them what R is shared by
    (amount_delta_drift and so on, and their sum u). score: alias of a relation with the attributed components and
    s_score. parameters: alias of one with the attribution parameters. For the offsets, see once. -#}
{% macro losses_of_parts(score, parameters) %}
  {%- set integrity_parts = ['i_chain', 'i_coverage', 'i_replay'] -%}
  (
    select
      {% for part in attributed_parts() %}
      {% if part in integrity_parts %}
      {{ capped_integrity_loss(part, integrity_parts, 'most_of_integrity') }} as {{ part }},
      {% elif part in resilience_parts() %}
      {{ share_of('beyond_ceiling', 'amount_' ~ part, 'u', 'n_infinite_amounts') }} as {{ part }},
      {% else %}
      {{ part }},
      {% endif %}
      {% endfor %}
      amount_delta_drift,
      amount_mttr_hours,
      amount_rho_regression,
      u
    from (
      select
        own.*,
        {{ resilience_loss_between('0::double precision', 'own.u', parameters ~ '.norm_k', parameters ~ '.norm_x0') }} as beyond_ceiling
      from (
        select
          amounts.*,
          amount_delta_drift + amount_mttr_hours + amount_rho_regression as u,
          num_nulls(amount_delta_drift, amount_mttr_hours, amount_rho_regression) as n_infinite_amounts
        from (
          select
            {{ parameters }}.lambda_c * {{ score }}.d_identity as d_identity,
            {{ parameters }}.mu_c * {{ score }}.k_contradiction as k_contradiction,
            {% for part in integrity_parts + ['q_deferral', 's_score'] %}
            {{ loss_of_value(score ~ '.' ~ part) }} as {{ part }},
            {% endfor %}
            {{ loss_of_value(parameters ~ '.integrity_floor') }} as most_of_integrity,
            {{ resilience_ceiling_loss(parameters ~ '.norm_k', parameters ~ '.norm_x0') }} as r_ceiling,
            {{ loss_of_rate(score ~ '.delta_drift') }} as amount_delta_drift,
            {{ log_of_one_plus('(' ~ score ~ '.mttr_hours / ' ~ parameters ~ '.mttr_scale_hours)') }} as amount_mttr_hours,
            {{ loss_of_rate(score ~ '.rho_regression') }} as amount_rho_regression,
            {{ loss_of_rate(score ~ '.ece') }} as ece,
            {{ loss_of_rate(score ~ '.u_unsafe') }} as u_unsafe
          {{ once() }}
        ) as amounts
      ) as own
      offset bigint '0'
    ) as shared
  )
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
