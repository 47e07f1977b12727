{#- What is summed up by agent and period (int_agent_periods), totalled (int_agent_totals) and differenced over windows
    (int_window_sums): the columns that are one number. -#}
{% macro window_counters() %}
  {{ return(['n_traces', 'n_identity_changes', 'n_overridden', 'n_conscience_failed', 'n_signature_verified',
             'n_key_registered', 'n_link_valid', 'n_chain_valid', 'n_chain_gaps', 'n_chain_rewinds',
             'n_chain_duplicates', 'n_fields_present', 'n_replay_sampled', 'replay_success_weight', 'n_unsafe',
             'n_signals_corroborated', 'n_signals_uncorroborated', 'n_recoveries', 'recovery_microseconds',
             'log_recovery_hours', 'log_recovery_hours_squared', 'n_judged', 'n_trivial', 'n_renumbered', 'n_shared_key', 'n_new_keys']) }}
{% endmacro %}

{#- And those that are arrays, with how many elements: one per bin of a score, or per field of record_sign_fields. -#}
{% macro window_arrays() %}
  {%- set arrays = {} -%}
  {%- for metric in drift_metrics() -%}
    {%- do arrays.update({metric ~ '_histogram': 10}) -%}
  {%- endfor -%}
  {%- do arrays.update({'excess_confidence': 10}) -%}
  {%- for counter in ['n_checked', 'n_unreported', 'n_contradicted'] -%}
    {%- do arrays.update({counter: record_sign_fields() | length}) -%}
  {%- endfor -%}
  {{ return(arrays) }}
{% endmacro %}

{#- Which of all these are known of the baseline window too: what drift and the signs compare with. -#}
{% macro baseline_sums() %}
  {%- set names = ['n_traces', 'n_trivial', 'n_renumbered', 'n_shared_key', 'n_new_keys'] -%}
  {{ return(names + (window_arrays().keys() | reject('eq', 'excess_confidence') | list)) }}
{% endmacro %}

{#- An array of n elements, each of the SQL in which $i stands for its place, 1 to n. -#}
{% macro array_of_each(n, element) -%}
  array[
    {%- for i in range(1, n + 1) %}{{ element | replace('$i', i | string) }}{% if not loop.last %}, {% endif %}{% endfor -%}
  ]
{%- endmacro %}
