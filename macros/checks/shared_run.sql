{#- A run that several dbt processes share, for schedulers that start a process per model. The processes have the same
    text in the environment variable CIRIS_RUN. The first process enters the run in the log with its as-of, and all
    other processes use that as-of. A process may build nodes that depend on int_scoring_run only if this run has built
    int_scoring_run. -#}

{#- The text of CIRIS_RUN; none for a run of one process. -#}
{% macro shared_run() %}
  {%- if not execute or setting('run_record') -%} {{ return(none) }} {%- endif -%}
  {{ return(env_var('CIRIS_RUN', '') | trim or none) }}
{% endmacro %}

{#- Id of the build that writes a row: the id of the run if several processes share it, otherwise the id of the dbt
    invocation. -#}
{% macro build_id() %}
  {{ return(run_id() if shared_run() else invocation_id) }}
{% endmacro %}

{#- Lock the schema until the transaction ends, so that processes that share a run enter it in the log one after the
    other. -#}
{% macro in_turn() %}
  {%- do run_query("select pg_advisory_xact_lock(hashtext('ciris_scoring_start'), hashtext(" ~ literal(target.schema) ~ "))") -%}
{% endmacro %}

{#- Enter the run in the log. If another process of the run has entered it already, use the as-of of that entry. If the
    run failed, and one of its processes is started again, its row in the log is opened again. -#}
{% macro join_run(log, row) %}
  {%- do start_run_record() -%}
  {%- do in_turn() -%}
  {%- do run_query(
      "update " ~ log ~ " set outcome = null, ended_at = null, message = null where run_id = '" ~ run_id() ~ "' and outcome <> 'published'") -%}
  {%- set entered = run_query("select " ~ utc_text('as_of') ~ " as as_of from " ~ log ~ " where run_id = '" ~ run_id() ~ "'") -%}
  {%- if entered | length == 0 -%}
    {%- do enter_run(log, row, in_transaction=true) -%}
  {%- else -%}
    {%- do run_query("commit; begin") -%}
    {%- set begun = shown_time(entered[0]['as_of']) -%}
    {%- set as_of = as_of_datetime().replace(tzinfo=none).isoformat() ~ 'Z' -%}
    {%- do graph.update({'entered_run': invocation_id, 'as_of_of_shared_run ' ~ invocation_id: entered[0]['as_of']}) -%}
    {%- if setting('as_of') is not none and as_of != begun -%}
      {%- do refuse("Variable ciris_as_of is " ~ shown(setting('as_of')) ~ ", but the run " ~ shown(shared_run()) ~ " (environment "
        ~ "variable CIRIS_RUN) has begun as of " ~ begun ~ ". Give all processes of a run the same as-of, or none.") -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Whether a test can run. In a shared run, the scheduler starts a test after each model that the test reads. The test
    passes without a check until this run has built the last of these models. -#}
{% macro is_testable() %}
  {%- if not shared_run() -%} {{ return(true) }} {%- endif -%}
  {%- set last = last_run() or {'built_nodes': '[]'} -%}
  {%- set built = fromjson(last['built_nodes']) if last.get('run_id') == run_id() else [] -%}
  {%- for unique_id in that_follow_run(model.depends_on.nodes) if unique_id not in built -%}
    {%- do graph.update({'untested ' ~ invocation_id: graph.get('untested ' ~ invocation_id, []) + [model.unique_id]}) -%}
    {{ return(false) }}
  {%- endfor -%}
  {{ return(true) }}
{% endmacro %}

{#- SQL of a test that cannot run yet: no rows, with the columns that the fail_calc of tests reads. -#}
{% macro untested() -%}
select
    null::bigint as percent_wrong,
    null::bigint as n
where false
{%- endmacro %}

{#- Blocking tests that must pass before the publication and have not passed in this shared run. Empty for a run of one
    process, because check_options refuses a command that skips tests. -#}
{% macro missing_tests() %}
  {%- set missing = [] -%}
  {%- if shared_run() -%}
    {%- set built = fromjson(last_run()['built_nodes']) -%}
    {%- for test in graph.nodes.values() if test.package_name == 'ciris_scoring' and test.resource_type == 'test'
        and test.config.severity | upper == 'ERROR' and test.unique_id not in built
        and 'model.ciris_scoring.int_runs' not in test.depends_on.nodes -%}
      {%- if that_follow_run(test.depends_on.nodes) -%} {%- do missing.append(test.name) -%} {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(missing | sort) }}
{% endmacro %}
