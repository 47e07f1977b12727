{#- The factors of the score, one macro per formula. Arguments are SQL expressions; results are double precision. -#}

{#- A rate: events per trace of the window. The window holds at least one trace. -#}
{% macro rate(count, n) -%}
  ({{ count }}::double precision / {{ n }}::double precision)
{%- endmacro %}

{#- scoring.md §3: C = exp(-lambda_c * D_identity) * exp(-mu_c * K_contradiction). -#}
{% macro core_identity(d_identity, k_contradiction) -%}
  (exp(-{{ scoring_parameter('lambda_c') }}::double precision * {{ d_identity }})
    * exp(-{{ scoring_parameter('mu_c') }}::double precision * {{ k_contradiction }}))
{%- endmacro %}

{#- scoring.md §4: I_int = I_chain * I_coverage * I_replay. -#}
{% macro integrity(i_chain, i_coverage, i_replay) -%}
  ({{ i_chain }} * {{ i_coverage }} * {{ i_replay }})
{%- endmacro %}

{#- scoring.md §6: ECE = sum over bins of (n_bin / N) * |mean confidence - success rate|, that is the sum of
    |confidences - successes| by bin over N. Null when nothing was judged. excess_confidence: an array of
    confidences less successes, by bin, in units of 1e-11, so that the sum is exact. -#}
{% macro expected_calibration_error(excess_confidence, n_judged) -%}
  ((
    {%- for bin in range(1, score_bins() + 1) %}
    abs({{ excess_confidence }}[{{ bin }}]){% if not loop.last %} +{% endif %}
    {%- endfor %}
  )::double precision / 1e11::double precision / nullif({{ n_judged }}, 0)::double precision)
{%- endmacro %}

{#- scoring.md §6: I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe). -#}
{% macro incompleteness_awareness(ece, q_deferral, u_unsafe) -%}
  ((1 - {{ ece }}) * {{ q_deferral }} * (1 - {{ u_unsafe }}))
{%- endmacro %}

{#- certainty.md §4b: the mean value of the deferrals of windows of which some have one and some have none: Q of the n
    deferrals of the steady days where there is one, which happens with the chance 1 - exp(-n W / D), and 1 elsewhere. -#}
{% macro worth_of_deferrals(q_deferral, n, window_days) -%}
  (select p.none + (1 - p.none) * {{ q_deferral }}
    from (
      select exp(
        -{{ n }}::double precision * {{ window_days }}
        / greatest({{ window_days }}, {{ scoring_parameter('steady_days') }})
      ) as none
    ) as p)
{%- endmacro %}

{#- scoring.md §8: the product of the factors, I_int no lower than the parameter integrity_floor. -#}
{% macro capacity_score(c, i_int, r, i_inc, s) -%}
  ({{ c }} * {{ floored_integrity(i_int) }} * {{ r }} * {{ i_inc }} * {{ s }})
{%- endmacro %}

{#- scoring.md §8: the weighted geometric mean of the factors. -#}
{% macro capacity_score_geometric(c, i_int, r, i_inc, s) -%}
  (power({{ c }}, {{ scoring_parameter('weight_c') }}::double precision)
    * power({{ floored_integrity(i_int) }}, {{ scoring_parameter('weight_i_int') }}::double precision)
    * power({{ r }}, {{ scoring_parameter('weight_r') }}::double precision)
    * power({{ i_inc }}, {{ scoring_parameter('weight_i_inc') }}::double precision)
    * power({{ s }}, {{ scoring_parameter('weight_s') }}::double precision))
{%- endmacro %}

{#- scoring.md §4: the floor belongs to the composites, never to the published factor. -#}
{% macro floored_integrity(i_int) -%}
  greatest({{ i_int }}, {{ scoring_parameter('integrity_floor') }}::double precision)
{%- endmacro %}

{#- scoring.md §8: fragility_index = 1 / (epsilon + capacity_score). -#}
{% macro fragility_index(capacity_score) -%}
  (1 / ({{ scoring_parameter('fragility_epsilon') }}::double precision + {{ capacity_score }}))
{%- endmacro %}

{#- scoring.md §8: how much data a score rests on. -#}
{% macro confidence_level(n_traces) -%}
  case
    when {{ n_traces }} < 10 then 'insufficient'
    when {{ n_traces }} < 30 then 'low'
    when {{ n_traces }} < 100 then 'medium'
    else 'high'
  end
{%- endmacro %}

{#- scoring.md §8: the factor with the smallest value; ties go to the first in the order C, I_int, R, I_inc, S. -#}
{% macro weakest_factor(c, i_int, r, i_inc, s) -%}
  case least({{ c }}, {{ i_int }}, {{ r }}, {{ i_inc }}, {{ s }})
    when {{ c }} then 'C'
    when {{ i_int }} then 'I_int'
    when {{ r }} then 'R'
    when {{ i_inc }} then 'I_inc'
    else 'S'
  end
{%- endmacro %}
