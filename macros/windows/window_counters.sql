{#- The counters of int_agent_periods that windows sum. -#}
{% macro window_counters() %}
  {{ return(['n_traces', 'n_identity_changes', 'n_overridden', 'n_conscience_failed', 'n_signature_verified',
             'n_key_registered', 'n_link_valid', 'n_chain_valid', 'n_chain_gaps', 'n_chain_rewinds',
             'n_chain_duplicates', 'n_fields_present', 'n_replay_sampled', 'replay_success_weight', 'n_unsafe',
             'n_signals_corroborated', 'n_signals_uncorroborated', 'n_recoveries', 'recovery_microseconds']) }}
{% endmacro %}
