{#- The log of runs, int_runs: what every run, in plain dbt too, says of itself at its start, its refusal and its end.
    The statement is Python's (job/run_log.py). ciris-scoring gives its own row by the variable ciris_attempt and ends it
    itself, since it also knows of runs that never got as far as dbt. -#}

{#- Id of this run. -#}
{% macro run_id() %}
  {{ return((setting('attempt') or {'id': invocation_id})['id']) }}
{% endmacro %}

{#- Begins a transaction that may write, whatever the session inherits; what the one at work has written is rolled back,
    because writing into the log commits. -#}
{% macro begin_anew() %}
  {%- do run_query("rollback; begin isolation level read committed read write; " ~ session_settings()) -%}
{% endmacro %}

{#- On-run-start: enters the run, and makes the log before the first one. -#}
{% macro enter_start() %}
  {%- if is_run_of_ours() -%} {%- do check_server() -%} {%- endif -%}
  {%- if uses_our_tables() and adapter.ciris_scoring_ownership_query is defined -%}
    {%- do run_query(session_settings()) -%}
    {%- do check_ownership() -%}
  {%- endif -%}
  {%- if not is_run_of_ours() or not is_ownership_checked() -%} {{ return('') }} {%- endif -%}
  {#- check_package reports a missing package, in the log. -#}
  {%- if adapter.ciris_scoring_overrides is defined -%} {%- do check_overrides() -%} {%- endif -%}
  {%- do valid_setting('attempt') -%}
  {%- set continued = continued_run(selected_models()) -%}
  {%- set node = graph.nodes['model.ciris_scoring.int_runs'] -%}
  {%- set log = api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias, type='table') -%}
  {%- set is_new = load_cached_relation(log) is none -%}
  {%- if is_new -%}
    {%- set columns = [] -%}
    {%- for column in node.columns.values() -%}
      {%- do columns.append(adapter.quote(column.name) ~ ' ' ~ column.data_type) -%}
    {%- endfor -%}
    {%- do begin_anew() -%}
    {%- do run_query("create table if not exists " ~ log ~ " (" ~ columns | join(', ') ~ ", primary key (run_id)); commit; begin") -%}
    {%- do adapter.cache_added(log) -%}
  {%- endif -%}
  {%- if is_new or not setting('attempt') -%}
    {%- do enter_run(log, {
        'started_at': 'now', 'as_of': as_of_datetime() if continued is none else continued['as_of'] ~ '+00',
        'version': node.config.meta['package_version'],
    }) -%}
  {%- endif -%}
{% endmacro %}

{#- Writes columns of this run's row, in a transaction of its own. -#}
{% macro enter_run(log, row) %}
  {%- do row.update({'run_id': run_id(), 'command': (setting('attempt') or {'command': 'dbt'})['command']}) -%}
  {%- do graph.update({'entered_run': invocation_id}) -%}
  {%- set relations = [log, relation_as_left('fct_capacity_scores'), relation_as_left('fct_data_quality')] -%}
  {%- do begin_anew() -%}
  {%- do run_query(adapter.ciris_scoring_log_entry(relations, row) ~ '; commit; begin') -%}
{% endmacro %}

{#- Stops the run with a message, which the log of runs gets too. -#}
{% macro refuse(message) %}
  {%- if execute -%} {%- do write_attempt({'outcome': 'refused', 'message': message}) -%} {%- endif -%}
  {{ exceptions.raise_compiler_error(message) }}
{% endmacro %}

{#- On-run-end: what became of the run, in the log and, for a run that others may go on with (check_parts), in
    int_scoring_run. -#}
{% macro enter_end(results) %}
  {%- if not (execute and flags.WHICH in ['run', 'build']) -%} {{ return('') }} {%- endif -%}
  {%- if not is_ownership_checked() -%} {{ return('') }} {%- endif -%}
  {%- do run_query(session_settings()) -%}
  {%- set built, failed = [], [] -%}
  {%- for result in results if result.node.package_name == 'ciris_scoring'
      and result.node.resource_type in ['model', 'seed', 'test'] -%}
    {%- do (built if result.status in ['success', 'pass', 'warn'] else failed).append(result) -%}
  {%- endfor -%}
  {%- do note_parts(built, failed) -%}
  {%- set broken = failed | selectattr('status', 'in', ['error', 'fail', 'runtime error']) | list -%}
  {%- set publication = built | selectattr('node.unique_id', 'equalto', 'model.ciris_scoring.int_runs') | list -%}
  {%- if not built and not failed -%}
    {%- do write_attempt(none) -%}
  {%- elif failed -%}
    {%- set first = (broken or failed)[0] -%}
    {%- do write_attempt({'outcome': 'failed', 'message': first.node.name ~ ': ' ~ first.message}) -%}
  {%- else -%}
    {%- do write_attempt({'outcome': 'published' if publication else 'built'}) -%}
  {%- endif -%}
  {{ return(leave_session()) }}
{% endmacro %}

{#- Ends this run's row of the log with these values; takes it away where they are none. -#}
{% macro write_attempt(values) %}
  {%- set log = none if graph.get('entered_run') != invocation_id or setting('attempt') else relation_as_left('int_runs') -%}
  {%- if log is not none and values is none -%}
    {%- do begin_anew() -%}
    {%- do run_query("delete from " ~ log ~ " where run_id = '" ~ run_id() ~ "'; commit; begin") -%}
  {%- elif log is not none -%}
    {%- do values.update({'ended_at': 'now'}) -%}
    {%- do enter_run(log, values) -%}
  {%- endif -%}
{% endmacro %}

{#- Whether this invocation builds models of this project. dbt retry does not say what it builds. -#}
{% macro is_run_of_ours() %}
  {%- if not execute or flags.WHICH not in ['run', 'build'] or selected_resources is not defined -%} {{ return(false) }} {%- endif -%}
  {%- if 'model.ciris_scoring.int_runs' not in graph.nodes -%} {{ return(false) }} {%- endif -%}
  {{ return(selected_models() | length > 0 or selected_resources | length == 0) }}
{% endmacro %}

{#- Unique ids of the models of this project that this invocation builds; none for dbt retry. -#}
{% macro selected_models() %}
  {%- set ours = [] -%}
  {%- for unique_id in selected_resources if unique_id.startswith('model.ciris_scoring.') -%}
    {%- do ours.append(unique_id) -%}
  {%- endfor -%}
  {{ return(ours) }}
{% endmacro %}
