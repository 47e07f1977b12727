{#- The columns of the public contract of fct_capacity_scores, in order. -#}
{% macro capacity_score_columns() %}
  {{ return(['capacity_score_id', 'agent_id_hash', 'agent_name', 'as_of', 'window_days', 'window_start', 'n_traces',
             'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score', 'capacity_score',
             'capacity_score_geometric', 'fragility_index', 'category', 'score_status', 'confidence',
             'weakest_factor', 'unmeasured_components', 'parameter_set_id', 'scored_at', 'capacity_score_low',
             'capacity_score_high', 'c_score_low', 'c_score_high', 'i_int_score_low', 'i_int_score_high', 'r_score_low',
             'r_score_high', 'i_inc_score_low', 'i_inc_score_high', 's_score_low', 's_score_high', 'category_low',
             'category_high', 'category_certainty', 'interval_driver']) }}
{% endmacro %}
