{#- The log of runs, int_runs. Only these macros and the model int_runs write it. ciris-scoring passes the id of its run and
    its command in the variable ciris_run_record, and reads the row afterwards. -#}

{#- Id of this invocation in the log, and of the run that it begins. The processes of a shared run have the same id. -#}
{% macro run_id() %}
  {%- set shared = shared_run() -%}
  {%- if shared -%} {{ return(local_md5('ciris_scoring ' ~ target.schema ~ ' ' ~ shared)) }} {%- endif -%}
  {{ return((setting('run_record') or {'id': invocation_id})['id']) }}
{% endmacro %}

{#- Enter the invocation in the log. Creates the log before the first run, and adds columns that the log of an earlier
    version lacks. Of the processes of a shared run, the one that builds int_scoring_run enters the run. -#}
{% macro enter_start() %}
  {%- set node = graph.nodes['model.ciris_scoring.int_runs'] -%}
  {%- set log = api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias, type='table') -%}
  {%- set is_new = load_cached_relation(log) is none -%}
  {%- if is_new -%}
    {%- set columns = [] -%}
    {%- for column in node.columns.values() -%}
      {%- do columns.append(adapter.quote(column.name) ~ ' ' ~ column.data_type) -%}
    {%- endfor -%}
    {#- dbt has created only the schemas of the selected nodes, and the log may be in another schema. -#}
    {%- if not adapter.check_schema_exists(log.database, log.schema) -%} {%- do adapter.create_schema(log) -%} {%- endif -%}
    {%- do begin_transaction() -%}
    {%- do run_query("create table if not exists " ~ log ~ " (" ~ columns | join(', ') ~ ", primary key (run_id)); commit") -%}
    {%- do adapter.cache_added(log) -%}
  {%- endif -%}
  {%- do begin_transaction() -%} {#- information_schema has only the columns of tables of the role -#}
  {%- set found, additions = adapter.get_columns_in_relation(log) | map(attribute='name') | list, [] -%}
  {%- for column in node.columns.values() if column.name not in found -%}
    {%- do additions.append('add column ' ~ adapter.quote(column.name) ~ ' ' ~ column.data_type) -%}
  {%- endfor -%}
  {%- if additions -%}
    {%- do begin_transaction() -%}
    {%- do run_query('alter table ' ~ log ~ ' ' ~ additions | join(', ') ~ '; commit') -%}
  {%- endif -%}
  {%- set last = none if begins_run() else last_run() -%}
  {%- do enter_run(log, {
      'started_at': 'now()', 'as_of': as_of() if last is none else utc_literal(last['as_of']),
      'version': literal(node.config.meta['package_version']),
  }) -%}
{% endmacro %}

{#- Write columns of this invocation's row in the log, and commit at once, so that the row remains if the run fails. A row
    that has an outcome is not changed. row: SQL expressions by name of the column. -#}
{% macro enter_run(log, row) %}
  {%- do row.update({'run_id': literal(run_id()) ~ '::uuid', 'command': literal((setting('run_record') or {'command': 'dbt'})['command'])}) -%}
  {%- do begin_transaction() -%}
  {%- do run_query(
      "insert into " ~ log ~ " as entered (" ~ row.keys() | join(', ') ~ ") select " ~ row.values() | join(', ')
      ~ " on conflict (run_id) do update set (" ~ row.keys() | join(', ') ~ ") = row(excluded." ~ row.keys() | join(', excluded.')
      ~ ") where entered.outcome is null; commit") -%}
{% endmacro %}

{#- Stop the run with a message, and log the message. -#}
{% macro refuse(message) %}
  {%- if execute -%} {%- do write_run_record({'outcome': 'refused', 'message': message}) -%} {%- endif -%}
  {{ exceptions.raise_compiler_error(message) }}
{% endmacro %}

{#- Write outcome, message and end time into the row of this invocation in the log. If values is none, delete the row. -#}
{% macro write_run_record(values) %}
  {%- set is_logged = flags.WHICH in ['run', 'build'] + (['test'] if shared_run() else []) -%}
  {%- set log = relation_as_left('int_runs') if is_logged else none -%}
  {%- if log is not none and values is none -%}
    {%- do begin_transaction() -%}
    {%- do run_query("delete from " ~ log ~ " where run_id = '" ~ run_id() ~ "'; commit") -%}
  {%- elif log is not none -%}
    {%- set row = {'ended_at': 'now()', 'outcome': literal(values['outcome'])} -%}
    {%- if 'message' in values -%} {%- do row.update({'message': literal((values['message'] | string).split() | join(' '))}) -%} {%- endif -%}
    {%- do enter_run(log, row) -%}
  {%- endif -%}
{% endmacro %}

{#- Hook on-run-end: takes back the notes of the models whose blocking test failed, and writes the outcome into the log. -#}
{% macro end_of_invocation(results) %}
  {%- if not execute or not kept().get('checked') or flags.WHICH not in ['run', 'build', 'test'] -%} {{ return('') }} {%- endif -%}
  {%- set built, failed, staged = [], [], [] -%}
  {%- for result in results if result.node.package_name == 'ciris_scoring'
      and result.node.resource_type in ['model', 'seed', 'test'] -%}
    {%- do (built if result.status in ['success', 'pass', 'warn'] else failed).append(result) -%}
  {%- endfor -%}
  {%- do forget_untested(failed) -%}
  {%- if flags.WHICH == 'test' and not shared_run() -%} {{ return('') }} {%- endif -%}
  {%- set broken = failed | selectattr('status', 'in', ['error', 'fail', 'runtime error']) | list -%}
  {%- set publication = built | selectattr('node.name', 'equalto', 'int_runs') | list -%}
  {%- for result in built if result.node.resource_type == 'model' and is_mart_table(result.node) -%}
    {%- do staged.append(result.node.name) -%}
  {%- endfor -%}
  {%- if failed -%}
    {%- set first = (broken or failed)[0] -%}
    {%- do write_run_record({'outcome': 'failed', 'message': first.node.name ~ ': ' ~ first.message}) -%}
  {%- elif publication -%}
    {%- do write_run_record({'outcome': 'published'}) -%}
  {%- elif shared_run() -%}
    {#- The run's row in the log stays open, because other processes continue the run. -#}
  {%- else -%}
    {%- do write_run_record({'outcome': 'built'} if built else none) -%}
    {%- if staged -%}
      {{ log("The rows of " ~ staged | join(', ') ~ " are staged, not published. To publish them: dbt build --select int_runs+", info=true) }}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Take back the notes of the models that a failed blocking test reads, so that nothing that depends on them is built or
    published until they are built again and the test passes. -#}
{% macro forget_untested(failed) %}
  {%- set names = [] -%}
  {%- for result in failed if result.node.resource_type == 'test' and result.node.config.severity | upper == 'ERROR' and result.status != 'skipped' -%}
    {%- do names.extend(parents_in_run(result.node)) -%}
  {%- endfor -%}
  {%- if names and relation_as_left('int_built') is not none -%}
    {%- do begin_transaction() -%}
    {%- do run_query(forget(names) ~ '; commit') -%}
  {%- endif -%}
{% endmacro %}

{#- Whether this invocation builds models of this project. True for dbt retry, which does not name its models. -#}
{% macro is_run_of_ours() %}
  {%- if not execute or flags.WHICH not in ['run', 'build'] or selected_resources is not defined -%} {{ return(false) }} {%- endif -%}
  {%- if 'model.ciris_scoring.int_runs' not in graph.nodes -%} {{ return(false) }} {%- endif -%}
  {{ return(selected_models() | length > 0 or selected_resources | length == 0) }}
{% endmacro %}

{#- Whether this invocation begins a run. Unknown, and so false, for dbt retry, which does not name its models. -#}
{% macro begins_run() %}
  {{ return('model.ciris_scoring.int_scoring_run' in selected_resources) }}
{% endmacro %}

{#- Unique ids of the models of this project that this invocation builds. Empty for dbt retry. -#}
{% macro selected_models() %}
  {%- set ours = [] -%}
  {%- for unique_id in selected_resources if unique_id.startswith('model.ciris_scoring.') -%}
    {%- do ours.append(unique_id) -%}
  {%- endfor -%}
  {{ return(ours) }}
{% endmacro %}
