{#- Hook on-run-start: refuses a run that would lose data or publish a wrong number, with a message that names the setting,
    its value and the remedy. A run of which a stranger could take control is refused before the log is written. -#}
{% macro start_of_invocation() %}
  {%- if not uses_our_tables() -%} {{ return('') }} {%- endif -%}
  {%- if adapter.ciris_scoring_ownership_query is not defined -%} {%- do check_package() -%} {%- endif -%}
  {%- if is_run_of_ours() -%} {%- do check_server() -%} {%- endif -%}
  {%- do begin_transaction() -%}
  {%- do check_ownership() -%}
  {%- if is_run_of_ours() -%}
    {%- do check_overrides() -%}
    {%- do valid_setting('run_record') -%}
    {%- if begins_run() or not shared_run() -%} {%- do enter_start() -%} {%- endif -%}
    {%- do begin_transaction() -%}
    {%- do check_options() -%}
    {%- do check_run_of(selected_models()) -%}
    {%- do drop_tables_of_another_version() -%}
  {%- endif -%}
  {%- do kept().update({'checked': true}) -%}
  {{ return('commit') }}
{% endmacro %}

{#- Refuses to write a node if the checks at the start of the run were not made. If a hook on-run-start of another
    package fails, dbt skips all later hooks, and builds the nodes nevertheless. -#}
{% macro require_checks() %}
  {%- if flags.WHICH != 'run-operation' and not kept().get('checked') -%}
    {%- do check_package() -%}
    {{ exceptions.raise_compiler_error(
      "The checks of ciris_scoring at the start of this run were not made, so nothing is written. Usually a hook on-run-start "
      ~ "of another package failed before them: correct the error that dbt reports first, then run again.") }}
  {%- endif -%}
{% endmacro %}

{#- Run every check for the models to be built. Writes nothing, so that `ciris-scoring check` can call it too. -#}
{% macro check_run_of(models) %}
  {%- do check_package() -%}
  {%- do check_overrides() -%}
  {%- do check_database() -%}
  {%- do check_variables() -%}
  {%- do check_version() -%}
  {%- if 'model.ciris_scoring.int_scoring_run' in models or not models -%} {%- do check_as_of() -%} {%- endif -%}
  {%- do check_sources() -%}
  {%- do check_distribution() -%}
  {%- do check_full_refresh(models) -%}
  {%- do check_parameters_of_run(models) -%}
  {%- do check_readers() -%}
  {%- do check_models_on_marts() -%}
{% endmacro %}

{#- Sources, remarks and parameters that `ciris-scoring check` shows. Secret parameters are not included. -#}
{% macro fitness() %}
  {%- set parameters = {} -%}
  {%- for name, definition in scoring_parameter_definitions().items() if not definition.get('secret') -%}
    {%- do parameters.update({name: scoring_parameter(name)}) -%}
  {%- endfor -%}
  {{ return({'source_shape': source_shape(), 'sources': source_report(), 'remarks': source_remarks(),
             'parameters': parameters}) }}
{% endmacro %}

{#- The Python package must be installed where dbt runs, in the version of the project: Python models need it, and it
    extends dbt's adapter (python/dbt_postgres_python.py). -#}
{% macro check_package() %}
  {%- set version = graph.nodes['model.ciris_scoring.int_runs'].config.meta['package_version'] -%}
  {%- set install = "in a checkout of the repository at version " ~ version ~ ": pip install ." -%}
  {%- if adapter.ciris_scoring_version is not defined -%}
    {%- do refuse("The Python package ciris-scoring is missing in the environment that this dbt runs in, so its Python "
      ~ "models cannot run. Install it there, " ~ install) -%}
  {%- elif adapter.ciris_scoring_version() != version -%}
    {%- do refuse("The dbt project ciris_scoring is version " ~ version ~ ", but the Python package in the environment that "
      ~ "this dbt runs in is " ~ adapter.ciris_scoring_version() ~ ". Install the same version there, " ~ install) -%}
  {%- endif -%}
{% endmacro %}

{#- The target must not have autocommit, because a model is written in one transaction. The database must have the
    encoding UTF8, because names of agents may be in any script. -#}
{% macro check_database() %}
  {%- set encoding = run_query("show server_encoding")[0][0] -%}
  {%- if encoding != 'UTF8' -%}
    {{ refuse(
      "Database " ~ target.dbname ~ " has the encoding " ~ encoding ~ ", but it must be UTF8. Copy it with pg_dump and "
      ~ "psql into a database made by: create database NAME template template0 encoding 'UTF8'; and enter its name in the profile.") }}
  {%- elif target.get('autocommit') -%}
    {{ refuse(
      "Target " ~ target.name ~ " has autocommit: true, but a model is written in one transaction. Remove autocommit "
      ~ "from the profile.") }}
  {%- endif -%}
{% endmacro %}

{#- Seconds by which an as-of may be after the server's time: a scheduler may start a run exactly at a period's end, and
    clocks differ a little. -#}
{% macro tolerated_seconds() %} {{ return(300) }} {% endmacro %}

{#- The as-of of a run that begins must not be in the future by the server's clock, before the newest published as-of
    (scoring.md §9) or before ciris_traces_from. -#}
{% macro check_as_of() %}
  {%- set as_of = as_of_datetime() -%}
  {%- set utc, parse = modules.pytz.utc, modules.datetime.datetime.fromisoformat -%}
  {%- set here = utc.localize(modules.datetime.datetime.utcnow()) -%}
  {%- set there = utc.localize(parse(run_query("select " ~ utc_text('clock_timestamp()'))[0][0])) -%}
  {%- set latest = there + modules.datetime.timedelta(seconds=tolerated_seconds()) -%}
  {%- set clocks = "the server's time is " ~ there.strftime('%Y-%m-%d %H:%M:%S') ~ " UTC, that of this machine "
      ~ here.strftime('%Y-%m-%d %H:%M:%S') -%}
  {%- set remark = "" if ((here - there).total_seconds() | abs) <= tolerated_seconds() else
      " The clocks differ (" ~ clocks ~ "): correct the wrong one." -%}
  {%- if as_of > latest -%}
    {{ refuse(
      ("The as-of" if setting('as_of') is none else "Variable ciris_as_of") ~ " is " ~ as_of ~ ", which is in the future ("
      ~ clocks ~ "); it must be the end of a period that is over." ~ remark) }}
  {%- endif -%}
  {%- set published = last_publication() -%}
  {%- if published is not none and not is_full_refresh() and utc.localize(parse(published['published_until'])) > latest -%}
    {{ refuse(
      "Schema " ~ target.schema ~ " is scored up to " ~ shown_time(published['published_until']) ~ ", which is in the future ("
      ~ clocks ~ "), so an earlier run had a wrong clock, or the server has one now. If the server's time is right, take "
      ~ "the future as-ofs back by scoring everything again: ciris-scoring run --full-refresh --allow-rescoring (in plain "
      ~ "dbt --full-refresh --vars 'ciris_allow_rescoring: true').") }}
  {%- endif -%}
  {%- set earliest = time_variable('traces_from') -%}
  {%- if as_of < earliest -%}
    {{ refuse(
      "Variable ciris_as_of is " ~ as_of ~ ", which is before the variable ciris_traces_from, " ~ earliest ~ ". Scores do not "
      ~ "use earlier traces: set a later ciris_as_of, or an earlier ciris_traces_from.") }}
  {%- endif -%}
  {%- set rescore_from = time_variable('rescore_from') if setting('rescore_from') is not none else as_of -%}
  {%- if rescore_from > as_of -%}
    {{ refuse(
      "Variable ciris_rescore_from is " ~ rescore_from ~ ", which is after the run's as-of, " ~ as_of
      ~ ". Set an earlier time, or leave the variable out.") }}
  {%- endif -%}
  {%- if published is not none and not is_full_refresh() -%}
    {%- set newest = utc.localize(parse(published['published_until'])) -%}
    {%- if as_of < newest -%}
      {{ refuse(
        "The run's as-of " ~ as_of ~ " is before the newest published as-of, " ~ newest ~ ". Omit --as-of (in "
        ~ "plain dbt ciris_as_of), or give that time or a later one. To score as-ofs again: ciris-scoring run "
        ~ "--allow-rescoring --vars 'ciris_rescore_from: TIME'." ~ remark) }}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Every role in the config grants must exist. Otherwise the grant would fail after everything is scored. -#}
{% macro check_readers() %}
  {%- set names = [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- for roles in (node.config.grants or {}).values() -%}
      {%- for role in ([roles] if roles is string else roles) if role | lower != 'public' -%}
        {%- do names.append(role | string) -%}
      {%- endfor -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- if names -%}
    {%- set literals = [] -%}
    {%- for name in names | unique(true) -%} {%- do literals.append(literal(name)) -%} {%- endfor -%}
    {%- for row in run_query("
        select
          wanted.name,
          array(select r.rolname::text from pg_roles as r where " ~ upper_case('r.rolname') ~ " = " ~ upper_case('wanted.name') ~ ")
        from unnest(array[" ~ literals | join(', ') ~ "]) as wanted (name)
        where wanted.name not in (select r.rolname from pg_roles as r)
        order by 1") -%}
      {%- set alike = fromjson(row[1]) if row[1] is string else row[1] -%}
      {{ refuse(
        "The environment variable CIRIS_MART_READERS (or the config grants of a model) names the role " ~ shown(row[0])
        ~ ", which does not exist in the server. "
        ~ ("Its name is " ~ shown(alike[0]) ~ ": correct the variable." if alike else
           "Correct the variable, or create the role: create role " ~ quoted_role(row[0]) ~ ";")) }}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}

{#- Refuses a table, an incremental model or a snapshot of a root project that reads a mart and may be built before the
    marts are published, so that it would have the rows of the run before. -#}
{% macro check_models_on_marts() %}
  {%- set reads, follows, passes = {}, {'model.ciris_scoring.fct_scoring_runs': true}, namespace(n_found=0) -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type == 'model' and is_mart_table(node) -%}
    {%- do reads.update({node.unique_id: true}) -%}
  {%- endfor -%}
  {%- for _ in range(graph.nodes | length) if passes.n_found < reads | length + follows | length -%}
    {%- set passes.n_found = reads | length + follows | length -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['model', 'snapshot'] -%}
      {%- for parent in node.depends_on.nodes -%}
        {%- if parent in reads -%} {%- do reads.update({node.unique_id: true}) -%} {%- endif -%}
        {%- if parent in follows -%} {%- do follows.update({node.unique_id: true}) -%} {%- endif -%}
      {%- endfor -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- for node in graph.nodes.values() if node.unique_id in reads and node.unique_id not in follows
      and node.package_name != 'ciris_scoring' and node.config.materialized not in ['view', 'ephemeral'] -%}
    {{ refuse(
      node.resource_type | capitalize ~ " " ~ node.name ~ " (" ~ node.original_file_path ~ ") stores rows of the scores, but it may be "
      ~ "built before they are published, and would have those of the run before. Add this line to it: -- depends_on: "
      ~ "{" ~ "{ ref('ciris_scoring', 'fct_scoring_runs') }" ~ "}") }}
  {%- endfor -%}
{% endmacro %}

{#- Stop the run if the source has lost a large share of the traces that the last run counted. rows: per period, counted
    and vanished traces (assert_no_traces_have_vanished). -#}
{% macro refuse_vanished_traces(rows) %}
  {%- set n_counted, n_vanished = rows.columns['n_counted'].values() | sum, rows.columns['n_vanished'].values() | sum -%}
  {%- if n_vanished > setting('vanished_share') * n_counted -%}
    {%- set worst = rows | sort(attribute='n_vanished') | last -%}
    {{ exceptions.raise_compiler_error(
      "The source " ~ setting('source_schema') ~ "." ~ (source_table('covenant_traces') if source_shape() == 'traces' else 'trace_events')
      ~ " no longer has " ~ n_vanished ~ " of " ~ n_counted ~ " traces that the last run counted in the restatement window (most of them on "
      ~ worst['period_start'] ~ ": " ~ worst['n_vanished'] ~ " of " ~ worst['n_counted'] ~ "), which is more than the variable "
      ~ "ciris_vanished_share, " ~ setting('vanished_share') ~ ". Nothing is published. Restore or load the traces; or, if they were "
      ~ "deleted on purpose, run once with --vars 'ciris_vanished_share: 1'.") }}
  {%- endif -%}
{% endmacro %}
