{#- Factors of the score, one macro per formula, in double precision. Macros named ..._columns select from a row of
    int_windows; the factor views and fct_capacity_scores share them. -#}

{#- Rate: count divided by n, which is the number of traces of the window and so at least 1. -#}
{% macro rate(count, n) -%}
  ({{ count }}::double precision / {{ n }}::double precision)
{%- endmacro %}

{#- scoring.md §3: C = exp(-lambda_c * D_identity) * exp(-mu_c * K_contradiction), and its components. -#}
{% macro core_identity_columns() -%}
  {%- set d_identity = rate('n_identity_changes', 'n_traces') -%}
  {%- set k_contradiction = rate('n_overridden', 'n_traces') -%}
  {{ d_identity }} as d_identity,
  {{ k_contradiction }} as k_contradiction,
  {{ rate('n_conscience_failed', 'n_traces') }} as conscience_failure_rate,
  exp(-{{ scoring_parameter('lambda_c') }}::double precision * {{ d_identity }})
  * exp(-{{ scoring_parameter('mu_c') }}::double precision * {{ k_contradiction }}) as c_score
{%- endmacro %}

{#- scoring.md §4: I_int = I_chain * I_coverage * I_replay, and its components. If the sample is too small, i_replay is
    unmeasured and 1. -#}
{% macro integrity_columns() -%}
  {%- set is_replay_measured = scoring_parameter('replay_enabled') | string | lower
    ~ ' and n_replay_sampled >= ' ~ scoring_parameter('replay_min_sample') -%}
  {%- set i_chain = rate('n_chain_valid', 'n_traces') -%}
  {%- set i_coverage = rate('n_fields_present', '(' ~ constant('required_fields') | length ~ ' * n_traces)') -%}
  {%- set i_replay = 'case when ' ~ is_replay_measured ~ ' then ' ~ rate('replay_success_weight', 'n_traces') ~ ' else 1 end' -%}
  {{ i_chain }} as i_chain,
  {{ rate('n_signature_verified', 'n_traces') }} as signature_rate,
  {{ rate('n_key_registered', 'n_traces') }} as key_rate,
  {{ rate('n_link_valid', 'n_traces') }} as link_rate,
  n_chain_gaps::integer as chain_gaps,
  n_chain_rewinds::integer as chain_rewinds,
  n_chain_duplicates::integer as chain_duplicates,
  {{ i_coverage }} as i_coverage,
  {{ i_replay }} as i_replay,
  {{ is_replay_measured }} as is_replay_measured,
  n_replay_sampled::integer as n_replayed,
  {{ i_chain }} * {{ i_coverage }} * {{ i_replay }} as i_int_score
{%- endmacro %}

{#- scoring.md §5: MTTR in hours, from the number n of episodes and their total duration in microseconds. Null if n is
    0. -#}
{% macro mean_time_to_recovery(microseconds, n) -%}
  (({{ microseconds }})::numeric / nullif({{ n }}, 0) / 3600000000)::double precision
{%- endmacro %}

{#- R and its components, and the components over the last steady_days (scoring.md §5). Drift and R are computed in
    numpy. Without an episode, mttr_hours is 0. -#}
{% macro resilience_columns() -%}
  delta_drift,
  delta_csdma_plausibility_score,
  delta_dsdma_domain_alignment,
  delta_coherence_level,
  n_measured_metrics > 0 as is_drift_measured,
  (n_recoveries + n_open_episodes)::integer as n_episodes,
  coalesce({{ mean_time_to_recovery(
    'recovery_microseconds + open_microseconds', 'n_recoveries + n_open_episodes'
  ) }}, 0) as mttr_hours,
  n_open_episodes,
  coalesce({{ rate('(n_recoveries - n_modes + n_modes_open)', 'nullif(n_recoveries, 0)') }}, 0) as rho_regression,
  r_score,
  coalesce({{ mean_time_to_recovery(
    'steady_recovery_microseconds + open_microseconds', 'steady_n_recoveries + n_open_episodes'
  ) }}, 0) as mttr_hours_steady,
  (steady_n_recoveries + n_open_episodes)::integer as n_steady_episodes,
  r_score_steady
{%- endmacro %}

{#- scoring.md §6: ECE (Naeini, Cooper and Hauskrecht 2015, AAAI), the sum over bins of (n_bin / N) * |mean confidence -
    success rate|, where n_bin of the N judged traces are in a bin. It equals the sum over bins of |excess_confidence| /
    N. excess_confidence: array by bin of confidences minus successes, in units of 1e-11, so that the sum is exact. Null
    if N is 0. -#}
{% macro expected_calibration_error(excess_confidence, n_judged) -%}
  ((
    {%- for bin in range(1, constant('score_bins', 0) + 1) %}
    abs({{ excess_confidence }}[{{ bin }}]){% if not loop.last %} +{% endif %}
    {%- endfor %}
  )::double precision / 1e11::double precision / nullif({{ n_judged }}, 0)::double precision)
{%- endmacro %}

{#- scoring.md §6: value of a deferral: its correctness, or half of it if no answer is recorded. -#}
{% macro deferral_value(correctness, has_resolution_summary) -%}
  ({{ correctness }}::numeric * case when {{ has_resolution_summary }} then 1 else 0.5 end)
{%- endmacro %}

{#- scoring.md §6: I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe), and its components. q_deferral is also computed over
    the last steady_days. ece is unmeasured and 0 if no trace has confidence and outcome. q_deferral is 1 if no deferral
    was judged. -#}
{% macro incompleteness_awareness_columns() -%}
  {%- set ece = 'coalesce(' ~ expected_calibration_error('excess_confidence', 'n_judged') ~ ', 0)' -%}
  {%- set q_deferral = 'coalesce(value_of_judged_deferrals / nullif(n_judged_deferrals, 0), 1)' -%}
  {%- set q_deferral_steady = 'coalesce(value_of_steady_deferrals / nullif(n_steady_deferrals, 0), 1)' -%}
  {%- set u_unsafe = rate('n_unsafe', 'n_traces') -%}
  {{ ece }} as ece,
  n_judged > 0 as is_ece_measured,
  {{ q_deferral }} as q_deferral,
  n_judged_deferrals,
  {{ u_unsafe }} as u_unsafe,
  (1 - {{ ece }}) * {{ q_deferral }} * (1 - {{ u_unsafe }}) as i_inc_score,
  {{ q_deferral_steady }} as q_deferral_steady,
  n_steady_deferrals,
  expected_q_deferral,
  i_inc_score_steady
{%- endmacro %}

{#- S and its components (scoring.md §7), computed in numpy. Without a signal, S is unmeasured and 0. -#}
{% macro sustained_coherence_columns() -%}
  sigma,
  sigma_max,
  (n_signals_corroborated + n_signals_uncorroborated)::integer as n_signals,
  s_score is not null as is_s_measured,
  coalesce(s_score, 0) as s_score
{%- endmacro %}

{#- All five factors and their components. -#}
{% macro factor_columns() -%}
  {{ core_identity_columns() }},
  {{ integrity_columns() }},
  {{ resilience_columns() }},
  {{ incompleteness_awareness_columns() }},
  {{ sustained_coherence_columns() }}
{%- endmacro %}

{#- scoring.md §8: capacity score, the product of the factors, with I_int at least integrity_floor. -#}
{% macro capacity_score(c, i_int, r, i_inc, s) -%}
  ({{ c }} * {{ floored_integrity(i_int) }} * {{ r }} * {{ i_inc }} * {{ s }})
{%- endmacro %}

{#- scoring.md §8: weighted geometric mean of the factors. -#}
{% macro capacity_score_geometric(c, i_int, r, i_inc, s) -%}
  (power({{ c }}, {{ scoring_parameter('weight_c') }}::double precision)
    * power({{ floored_integrity(i_int) }}, {{ scoring_parameter('weight_i_int') }}::double precision)
    * power({{ r }}, {{ scoring_parameter('weight_r') }}::double precision)
    * power({{ i_inc }}, {{ scoring_parameter('weight_i_inc') }}::double precision)
    * power({{ s }}, {{ scoring_parameter('weight_s') }}::double precision))
{%- endmacro %}

{#- scoring.md §4: I_int as the composite scores use it, that is, at least integrity_floor. -#}
{% macro floored_integrity(i_int) -%}
  greatest({{ i_int }}, {{ scoring_parameter('integrity_floor') }}::double precision)
{%- endmacro %}

{#- scoring.md §8: fragility index, 1 / (fragility_epsilon + capacity score). -#}
{% macro fragility_index(capacity_score) -%}
  (1 / ({{ scoring_parameter('fragility_epsilon') }}::double precision + {{ capacity_score }}))
{%- endmacro %}

{#- scoring.md §8: level of confidence, by the number of traces. -#}
{% macro confidence_level(n_traces) -%}
  case
    when {{ n_traces }} < 10 then 'insufficient'
    when {{ n_traces }} < 30 then 'low'
    when {{ n_traces }} < 100 then 'medium'
    else 'high'
  end
{%- endmacro %}

{#- scoring.md §8: the factor with the smallest value. If several have this value, it is the first of them in the order
    C, I_int, R, I_inc, S. -#}
{% macro weakest_factor(c, i_int, r, i_inc, s) -%}
  case least({{ c }}, {{ i_int }}, {{ r }}, {{ i_inc }}, {{ s }})
    when {{ c }} then 'C'
    when {{ i_int }} then 'I_int'
    when {{ r }} then 'R'
    when {{ i_inc }} then 'I_inc'
    else 'S'
  end
{%- endmacro %}
