{#- The published components of each factor, in the order of the public contract. -#}
{% macro components_by_factor() %}
  {{ return({
    'C': ['d_identity', 'k_contradiction', 'conscience_failure_rate'],
    'I_int': ['i_chain', 'signature_rate', 'key_rate', 'link_rate', 'chain_gaps', 'chain_rewinds', 'chain_duplicates',
              'i_coverage', 'i_replay', 'n_replayed'],
    'R': ['delta_drift', 'delta_csdma_plausibility_score', 'delta_dsdma_domain_alignment', 'delta_coherence_level',
          'mttr_hours', 'n_open_episodes', 'rho_regression'],
    'I_inc': ['ece', 'q_deferral', 'n_judged_deferrals', 'u_unsafe'],
    'S': ['sigma', 'sigma_max', 'n_signals'],
  }) }}
{% endmacro %}

{#- All of them in one list. -#}
{% macro components() %}
  {{ return(components_by_factor().values() | sum(start=[])) }}
{% endmacro %}
