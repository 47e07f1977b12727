{#- The columns of the public contract of fct_capacity_scores, in order. -#}
{% macro capacity_score_columns() %}
  {{ return(['capacity_score_id', 'agent_id_hash', 'agent_name', 'as_of', 'window_days', 'window_start', 'n_traces',
             'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score', 'capacity_score',
             'capacity_score_geometric', 'fragility_index', 'category', 'score_status', 'confidence',
             'weakest_factor', 'unmeasured_components', 'parameter_set_id', 'scored_at']) }}
{% endmacro %}
