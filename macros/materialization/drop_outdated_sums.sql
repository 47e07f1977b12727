{#- On-run-start, after the checks: drops each table of sums by period (models/intermediate/periods) that an earlier version
    of the project has built with fewer columns, so that this run builds it from nothing, out of the verdicts. Anything
    else that lacks a column gains it, and only new rows need its values; a window reaches back to old sums. Nothing that
    is published reads these tables. What former models left goes too. -#}
{% macro drop_outdated_sums() %}
  {%- if not (execute and flags.WHICH in ['run', 'build'] and selected_resources is defined) -%} {{ return('') }} {%- endif -%}
  {%- set dropped = [] -%}
  {%- for unique_id in selected_resources if unique_id.startswith('model.ciris_scoring.') -%}
    {%- set model = graph.nodes[unique_id] -%}
    {%- set table = adapter.get_relation(model.database, model.schema, model.alias) if 'periods' in model.fqn else none -%}
    {%- if table is not none -%}
      {%- set columns = adapter.get_columns_in_relation(table) | map(attribute='name') | list -%}
      {%- if model.columns.keys() | reject('in', columns) | list | length > 0 -%}
        {%- do log("Building " ~ model.name ~ " from nothing: an earlier version made it with other columns.", info=true) -%}
        {%- do adapter.drop_relation(table) -%}
        {%- do dropped.append(table) -%}
      {%- endif -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set model = graph.nodes['model.ciris_scoring.int_agent_periods'] -%}
  {%- for name in ['int_score_histograms', 'int_calibration_bins', 'int_sign_periods', 'int_interval_periods',
      'int_scored_windows', 'int_counted_signs', 'int_deferral_signs', 'int_phase_signs', 'int_identity_signs',
      'int_late_arrivals', 'int_data_quality'] -%}
    {%- set relation = adapter.get_relation(model.database, model.schema, name) -%}
    {%- if relation is not none -%}
      {%- do adapter.drop_relation(relation) -%}
      {%- do dropped.append(relation) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return('commit' if dropped else '') }}
{% endmacro %}
