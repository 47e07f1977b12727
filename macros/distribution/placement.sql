{#- Where each table is on a Citus cluster: agent, distributed by agent, so that all rows of an agent are in one place;
    reference, whole on every machine; local, on the coordinator. On plain PostgreSQL all are local. -#}
{% macro placement(name) %}
  {%- if not is_distributed() -%} {{ return('local') }} {%- endif -%}
  {%- set by_agent = [
      'int_trace_verdicts', 'int_traces_without_agent', 'int_replays', 'int_agents', 'int_agent_events',
      'int_agent_hours', 'int_agent_periods',
      'int_windows',
      'fct_capacity_scores', 'fct_capacity_alerts', 'fct_record_signs',
  ] -%}
  {%- set whole = [
      'int_scoring_run', 'int_scoring_parameters', 'int_source_periods', 'int_deferral_verdicts',
      'dim_agents', 'dim_capacity_categories', 'dim_scoring_parameters', 'dim_scoring_windows',
      'scoring_windows', 'capacity_categories', 'deferral_outcomes', 'components',
  ] -%}
  {{ return('agent' if name in by_agent else 'reference' if name in whole else 'local') }}
{% endmacro %}

{#- Whether the tables are on a Citus cluster. -#}
{% macro is_distributed() %}
  {{ return(setting('distribution') == 'citus') }}
{% endmacro %}
