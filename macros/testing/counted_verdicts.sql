{#- For tests: the verdict that each counter of periods and windows counts. -#}
{% macro counted_verdicts() %}
  {{ return({
    'n_identity_changes': 'is_identity_change',
    'n_overridden': 'is_overridden',
    'n_conscience_failed': 'is_conscience_failed',
    'n_signature_verified': 'is_signature_verified',
    'n_key_registered': 'is_key_registered',
    'n_link_valid': 'is_link_valid',
    'n_chain_valid': 'is_chain_valid',
    'n_chain_gaps': 'is_chain_gap',
    'n_chain_rewinds': 'is_chain_rewind',
    'n_chain_duplicates': 'is_chain_duplicate',
    'n_replay_sampled': 'is_replay_sampled',
    'n_unsafe': 'is_unsafe',
    'n_recoveries': 'is_fragility_recovered',
  }) }}
{% endmacro %}
