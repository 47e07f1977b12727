{#- The log of runs, int_runs. The SQL statement that writes its rows is in Python (job/run_log.py). ciris-scoring
    writes the start and end of its runs itself, because it also logs runs that end before dbt starts. ciris-scoring
    passes the row of the run to dbt in the variable ciris_run_record. -#}

{#- Id of this run. -#}
{% macro run_id() %}
  {%- set shared = shared_run() -%}
  {%- if shared -%} {{ return(local_md5('ciris_scoring ' ~ target.schema ~ ' ' ~ shared)) }} {%- endif -%}
  {{ return((setting('run_record') or {'id': invocation_id})['id']) }}
{% endmacro %}

{#- Begin a new transaction that can write, whatever the session's default is. -#}
{% macro start_run_record() %}
  {%- do run_query("rollback; begin isolation level read committed read write; " ~ session_settings()) -%}
{% endmacro %}

{#- Hook on-run-start: enters the run in the log. Creates the log before the first run, and adds columns that the log of
    an earlier version lacks. -#}
{% macro enter_start() %}
  {%- if is_run_of_ours() -%} {%- do check_server() -%} {%- endif -%}
  {%- if uses_our_tables() and adapter.ciris_scoring_ownership_query is defined -%}
    {%- do run_query(session_settings()) -%}
    {%- do check_ownership() -%}
  {%- endif -%}
  {%- if not is_run_of_ours() or graph.get('ownership_checked') != invocation_id -%} {{ return('') }} {%- endif -%}
  {%- do check_overrides() -%}
  {%- do valid_setting('run_record') -%}
  {%- set continued = continued_run(selected_models()) -%}
  {%- set node = graph.nodes['model.ciris_scoring.int_runs'] -%}
  {%- set log = api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias, type='table') -%}
  {%- set is_new = load_cached_relation(log) is none -%}
  {%- if is_new -%}
    {%- set columns = [] -%}
    {%- for column in node.columns.values() -%}
      {%- do columns.append(adapter.quote(column.name) ~ ' ' ~ column.data_type) -%}
    {%- endfor -%}
    {%- do start_run_record() -%}
    {%- do in_turn() -%}
    {#- dbt has created only the schemas of the selected nodes, and the log may be in another schema. -#}
    {%- if not adapter.check_schema_exists(log.database, log.schema) -%} {%- do adapter.create_schema(log) -%} {%- endif -%}
    {%- do run_query("create table if not exists " ~ log ~ " (" ~ columns | join(', ') ~ ", primary key (run_id)); commit; begin") -%}
    {%- do adapter.cache_added(log) -%}
  {%- endif -%}
  {%- set found, additions = adapter.get_columns_in_relation(log) | map(attribute='name') | list, [] -%}
  {%- for column in node.columns.values() if column.name not in found -%}
    {%- do additions.append('add column ' ~ adapter.quote(column.name) ~ ' ' ~ column.data_type) -%}
  {%- endfor -%}
  {%- if additions -%}
    {%- do start_run_record() -%}
    {%- do run_query('alter table ' ~ log ~ ' ' ~ additions | join(', ') ~ '; commit; begin') -%}
  {%- endif -%}
  {%- if is_new or additions or not setting('run_record') -%}
    {%- set row = {
        'started_at': 'now', 'as_of': as_of_datetime() if continued is none else continued['as_of'] ~ '+00',
        'version': node.config.meta['package_version'],
    } -%}
    {%- if shared_run() -%} {%- do join_run(log, row) -%} {%- else -%} {%- do enter_run(log, row) -%} {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Write columns of this run's row in the log, and commit at once, so that the row remains if the run fails. -#}
{% macro enter_run(log, row, in_transaction=false) %}
  {%- do row.update({'run_id': run_id(), 'command': (setting('run_record') or {'command': 'dbt'})['command']}) -%}
  {%- do graph.update({'entered_run': invocation_id}) -%}
  {%- set relations = [log, relation_as_left('fct_capacity_scores'), relation_as_left('fct_data_quality')] -%}
  {%- if not in_transaction -%} {%- do start_run_record() -%} {%- endif -%}
  {%- do run_query(adapter.ciris_scoring_log_entry(relations, row) ~ '; commit; begin') -%}
{% endmacro %}

{#- Stop the run with a message, and log the message. -#}
{% macro refuse(message) %}
  {%- if execute -%} {%- do write_run_record({'outcome': 'refused', 'message': message}) -%} {%- endif -%}
  {{ exceptions.raise_compiler_error(message) }}
{% endmacro %}

{#- Hook on-run-end: writes the outcome of the run into the log. It also notes in int_scoring_run which nodes were
    built, because a later command may continue the run (check_last_run). -#}
{% macro enter_end(results) %}
  {%- if not (execute and flags.WHICH in ['run', 'build'] + (['test'] if shared_run() else [])) -%} {{ return('') }} {%- endif -%}
  {%- if graph.get('ownership_checked') != invocation_id -%} {{ return('') }} {%- endif -%}
  {%- do run_query(session_settings()) -%}
  {%- set built, failed = [], [] -%}
  {%- for result in results if result.node.package_name == 'ciris_scoring'
      and result.node.resource_type in ['model', 'seed', 'test'] -%}
    {%- do (built if result.status in ['success', 'pass', 'warn'] else failed).append(result) -%}
  {%- endfor -%}
  {%- do note_parts(built | rejectattr('node.unique_id', 'in', graph.get('untested ' ~ invocation_id, [])) | list, failed) -%}
  {%- set broken = failed | selectattr('status', 'in', ['error', 'fail', 'runtime error']) | list -%}
  {%- set publication = built | selectattr('node.unique_id', 'equalto', 'model.ciris_scoring.int_runs') | list -%}
  {%- if shared_run() and not failed and not publication -%}
    {#- The run's row in the log stays open, because other processes continue the shared run. -#}
  {%- elif not built and not failed -%}
    {%- do write_run_record(none) -%}
  {%- elif failed -%}
    {%- set first = (broken or failed)[0] -%}
    {%- do write_run_record({'outcome': 'failed', 'message': first.node.name ~ ': ' ~ first.message}) -%}
  {%- else -%}
    {%- do write_run_record({'outcome': 'published' if publication else 'built'}) -%}
  {%- endif -%}
  {{ return(leave_session()) }}
{% endmacro %}

{#- Note in int_scoring_run which nodes this invocation built and which blocking tests failed. begun: unique ids of the
    nodes that it will build. They are noted when it begins, so that they do not count as built if it cannot note its
    end: it may be killed, or dbt skips the hook on-run-end after a failed hook of another package. -#}
{% macro note_parts(built, failed, begun=[]) %}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scoring_run is none or not (built or failed or begun) -%} {{ return('') }} {%- endif -%}
  {%- set names, failed_tests, begun_names = [], [], [] -%}
  {%- for unique_id in begun -%} {%- do begun_names.append(literal(unique_id)) -%} {%- endfor -%}
  {%- for unique_id in built | map(attribute='node.unique_id') -%}
    {%- do names.append(literal(unique_id)) -%}
  {%- endfor -%}
  {%- for result in failed if result.node.resource_type == 'test' -%}
    {%- do failed_tests.append(literal(result.node.unique_id)) -%}
  {%- endfor -%}
  {%- do start_run_record() -%}
  {%- do run_query("
    update " ~ scoring_run ~ "
    set
      built_nodes = array(
        select node from unnest(built_nodes) as node where node <> all (array[" ~ begun_names | join(', ') ~ "]::text[])
      ) || array[" ~ names | join(', ') ~ "]::text[],
      failed_tests = array(
        select test from unnest(failed_tests) as test where test <> all (array[" ~ names | join(', ') ~ "]::text[])
        union
        select unnest(array[" ~ failed_tests | join(', ') ~ "]::text[])
      )
    where run_id = " ~ literal(run_in_progress()) ~ ";
    commit;
    begin") -%}
{% endmacro %}

{#- Write values and the end time into the row of this run in the log. If values is none, delete the row. -#}
{% macro write_run_record(values) %}
  {%- set is_entered = graph.get('entered_run') == invocation_id or (shared_run() and flags.WHICH == 'test') -%}
  {%- set log = relation_as_left('int_runs') if is_entered and not setting('run_record') else none -%}
  {%- if log is not none and values is none -%}
    {%- do start_run_record() -%}
    {%- do run_query("delete from " ~ log ~ " where run_id = '" ~ run_id() ~ "'; commit; begin") -%}
  {%- elif log is not none -%}
    {%- do values.update({'ended_at': 'now'}) -%}
    {%- do enter_run(log, values) -%}
  {%- endif -%}
{% endmacro %}

{#- Whether this invocation builds models of this project. True for dbt retry, which does not name its models. -#}
{% macro is_run_of_ours() %}
  {%- if not execute or flags.WHICH not in ['run', 'build'] or selected_resources is not defined -%} {{ return(false) }} {%- endif -%}
  {%- if 'model.ciris_scoring.int_runs' not in graph.nodes -%} {{ return(false) }} {%- endif -%}
  {{ return(selected_models() | length > 0 or selected_resources | length == 0) }}
{% endmacro %}

{#- Unique ids of the models of this project that this invocation builds. Empty for dbt retry. -#}
{% macro selected_models() %}
  {%- set ours = [] -%}
  {%- for unique_id in selected_resources if unique_id.startswith('model.ciris_scoring.') -%}
    {%- do ours.append(unique_id) -%}
  {%- endfor -%}
  {{ return(ours) }}
{% endmacro %}
