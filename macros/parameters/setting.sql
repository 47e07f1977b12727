{#- A variable of the project, by its name without the prefix that keeps it apart from other projects' variables. In a
    project of its own, the name that it had before 0.2.0 still counts where --vars has not the new one; check_run warns
    of it. -#}
{% macro setting(name) %}
  {%- if project_name == 'ciris_scoring' and name in names_before_prefix() and var(name, none) is not none
      and 'ciris_' ~ name not in invocation_args_dict.get('vars', {}) -%}
    {{ return(var(name)) }}
  {%- endif -%}
  {{ return(var('ciris_' ~ name)) }}
{% endmacro %}

{#- Variables that were known without the prefix before 0.2.0. -#}
{% macro names_before_prefix() %}
  {{ return([
    'source_schema', 'covenant_traces_table', 'wbd_deferrals_table', 'covenant_public_keys_table',
    'covenant_trace_batches_table', 'as_of', 'scoring_period', 'scoring_parameters', 'lookback_periods',
    'late_detection_periods', 'allow_rescoring', 'scoring_work_mem',
  ]) }}
{% endmacro %}
