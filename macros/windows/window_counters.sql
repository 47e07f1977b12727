{#- The counters, one number each, that int_agent_periods sums, int_agent_totals totals and int_window_sums takes
    differences of. -#}
{% macro window_counters() %}
  {{ return(['n_traces', 'n_identity_changes', 'n_overridden', 'n_conscience_failed', 'n_signature_verified',
             'n_key_registered', 'n_link_valid', 'n_chain_valid', 'n_chain_gaps', 'n_chain_rewinds',
             'n_chain_duplicates', 'n_fields_present', 'n_replay_sampled', 'replay_success_weight', 'n_unsafe',
             'n_signals_corroborated', 'n_signals_uncorroborated', 'n_recoveries', 'recovery_microseconds',
             'log_recovery_hours', 'log_recovery_hours_squared', 'n_judged', 'n_trivial', 'n_renumbered', 'n_shared_key', 'n_new_keys']) }}
{% endmacro %}

{#- The counters that are arrays, and their lengths: one element per bin, or per field of record_sign_fields. -#}
{% macro window_arrays() %}
  {%- set arrays = {'excess_confidence': score_bins()} -%}
  {%- for counter in constant('record_sign_arrays') -%}
    {%- do arrays.update({counter: record_sign_fields() | length}) -%}
  {%- endfor -%}
  {{ return(arrays) }}
{% endmacro %}

{#- The counters that windows also have for the baseline: signs compare with them. -#}
{% macro baseline_sums() %}
  {{ return(constant('record_sign_counters') + constant('record_sign_arrays')) }}
{% endmacro %}

{#- An array of n elements of SQL, with $i as 1 to n. -#}
{% macro array_of_each(n, element) -%}
  array[
    {%- for i in range(1, n + 1) %}{{ element | replace('$i', i | string) }}{% if not loop.last %}, {% endif %}{% endfor -%}
  ]
{%- endmacro %}
