{#- Intervals of the score (certainty.md §3): what SQL and Python agree on, and the columns they share. -#}

{#- Version of the method, part of the digest of what statistics are made from. Count it up when limits change, and with it
    METHOD_VERSION in python/ciris_scoring/statistics/inputs.py. -#}
{% macro interval_method_version() %}
  {{ return(4) }}
{% endmacro %}

{#- Everything but data that decides drift, R or a limit, joined by |: the method's version, hours per period, and the
    parameters that Python reads (ciris_scoring.statistics.inputs.Parameters), in their published spelling. -#}
{% macro statistics_parameters() %}
  {%- set values = [interval_method_version(), period_hours()] -%}
  {%- for name in ['lambda_c', 'mu_c', 'integrity_floor', 'replay_enabled', 'replay_min_sample', 'mttr_scale_hours',
                   'norm_k', 'norm_x0', 'drift_pseudo_count', 'drift_min_sample', 'decay_per_day', 'w_corroborated',
                   'w_uncorroborated', 'min_traces', 'steady_days', 'episode_z'] -%}
    {%- do values.append(scoring_parameter_text(name)) -%}
  {%- endfor -%}
  {{ return(values | join('|')) }}
{% endmacro %}

{#- Columns of fct_capacity_scores that have limits, COLUMN_low and COLUMN_high: the score, its factors and the steady
    score. -#}
{% macro scores_with_limits() %}
  {{ return(['capacity_score', 'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score', 'capacity_score_steady']) }}
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
