{#- Intervals of the score (certainty.md §3): what SQL and Python agree on, and the columns they share. -#}

{#- Version of the method, part of the digest of what statistics are made from. Count it up when limits change, and with it
    METHOD_VERSION in python/ciris_scoring/steps/intervals/inputs.py. -#}
{% macro interval_method_version() %}
  {{ return(3) }}
{% endmacro %}

{#- Everything but data that decides drift, R or a limit, joined by |: the method's version, hours per period, and the
    parameters that Python reads (ciris_scoring.steps.intervals.Parameters), in their published spelling. -#}
{% macro statistics_parameters() %}
  {%- set values = [interval_method_version(), period_hours()] -%}
  {%- for name in ['lambda_c', 'mu_c', 'integrity_floor', 'replay_enabled', 'replay_min_sample', 'mttr_scale_hours',
                   'norm_k', 'norm_x0', 'drift_pseudo_count', 'drift_min_sample', 'decay_per_day', 'w_corroborated',
                   'w_uncorroborated', 'min_traces', 'steady_days'] -%}
    {%- do values.append(scoring_parameter_text(name)) -%}
  {%- endfor -%}
  {{ return(values | join('|')) }}
{% endmacro %}

{#- Columns of fct_capacity_scores that have limits, COLUMN_low and COLUMN_high: the score, its factors and the steady
    score. -#}
{% macro scores_with_limits() %}
  {{ return(['capacity_score', 'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score', 'capacity_score_steady']) }}
{% endmacro %}

{#- Components that have limits; s_score is a factor as well, so its limits are among the factors'. -#}
{% macro components_with_limits() %}
  {{ return(['d_identity', 'k_contradiction', 'i_chain', 'i_coverage', 'i_replay', 'delta_drift', 'mttr_hours', 'ece',
             'q_deferral', 'u_unsafe']) }}
{% endmacro %}

{#- Components that have a design effect, COMPONENT_design_effect. -#}
{% macro components_with_design_effect() %}
  {{ return(['d_identity', 'k_contradiction', 'i_chain', 'i_coverage', 'i_replay', 'delta_drift', 'ece', 'u_unsafe',
             's_score']) }}
{% endmacro %}

{#- What has a correlation of the traces of a day in common over the fleet, COLUMN_correlation. -#}
{% macro quantities_with_correlation() %}
  {{ return(['d_identity', 'k_contradiction', 'i_chain', 'i_coverage', 'i_replay', 'u_unsafe', 's_score', 'ece']
            + drift_deltas()) }}
{% endmacro %}

{#- The drifts of the single metrics. -#}
{% macro drift_deltas() %}
  {%- set names = [] -%}
  {%- for metric in drift_metrics() -%} {%- do names.append('delta_' ~ metric) -%} {%- endfor -%}
  {{ return(names) }}
{% endmacro %}

{#- The columns of limits of the components and their design effects, in order. -#}
{% macro component_limit_columns() %}
  {%- set names = [] -%}
  {%- for component in components_with_limits() -%}
    {%- do names.extend([component ~ '_low', component ~ '_high']) -%}
  {%- endfor -%}
  {%- for component in components_with_design_effect() -%} {%- do names.append(component ~ '_design_effect') -%} {%- endfor -%}
  {{ return(names) }}
{% endmacro %}

{#- Logarithm of a duration in hours, of at least 0.01 h, as an exact decimal, so that sums are the same in any order. -#}
{% macro log_hours(duration) -%}
  round(ln(greatest(extract(epoch from {{ duration }})::double precision / 3600, 0.01))::numeric, 12)
{%- endmacro %}

{#- A limit that holds what SQL makes of the same sums: Python's last digit may be another. Null where the limit is. -#}
{% macro low_limit(limit, value) -%}
  case when {{ limit }} > {{ value }} then {{ value }} else {{ limit }} end
{%- endmacro %}

{#- The same for an upper limit. -#}
{% macro high_limit(limit, value) -%}
  case when {{ limit }} < {{ value }} then {{ value }} else {{ limit }} end
{%- endmacro %}

{#- Whether a category's bounds hold a score; `categories` is the alias of capacity_categories. -#}
{% macro is_in_category(score, categories) -%}
  ({{ score }} is not null)
  and ({{ categories }}.lower_bound is null or {{ score }} >= {{ categories }}.lower_bound)
  and ({{ categories }}.upper_bound is null or {{ score }} < {{ categories }}.upper_bound)
{%- endmacro %}

{#- Whether a score lies in its category whatever chance did: where both limits lie in it. Null with the category. -#}
{% macro category_certainty(category, category_low, category_high) -%}
  case
    when {{ category }} is null then null
    when {{ category_low }} = {{ category }} and {{ category_high }} = {{ category }} then 'certain'
    else 'uncertain'
  end
{%- endmacro %}

{#- 64-bit hash of the sums of a period that the statistics are made from. Hashes of several periods are added up: where the
    sum is another, they have to be computed again. -#}
{% macro sums_hash() -%}
  {%- set sums = [
      'n_traces', 'n_identity_changes', 'n_overridden', 'n_chain_valid', 'n_fields_present', 'n_replay_sampled',
      'n_replay_succeeded', 'n_unsafe', 'n_signals_corroborated', 'n_signals_uncorroborated', 'n_coherent_corroborated',
      'n_coherent_uncorroborated', 'n_recoveries', 'log_recovery_hours', 'log_recovery_hours_squared',
      'judged_by_bin::text', 'confidence_by_bin::text', 'successes_by_bin::text',
      'hash_array_extended(score_triples, 0)',
  ] -%}
  {%- for metric in drift_metrics() -%} {%- do sums.append(metric ~ '_histogram::text') -%} {%- endfor -%}
  hashtextextended(concat_ws('|', {{ epoch('period_start') }}, {{ sums | join(', ') }}), 0)
{%- endmacro %}
