{#- Called before anything is built: refuses a run that cannot end well, naming the setting, its value and the remedy. -#}
{% macro check_run() %}
  {%- if is_run_of_ours() -%}
    {%- do check_options() -%}
    {%- do check_run_of(selected_models()) -%}
  {%- endif -%}
  {{ return(leave_session() if uses_our_tables() else '') }}
{% endmacro %}

{#- The same for these models. Writes nothing. -#}
{% macro check_run_of(models) %}
  {%- do check_package() -%}
  {%- do check_overrides() -%}
  {%- do check_earlier_state() -%}
  {%- do check_database() -%}
  {%- do check_variables() -%}
  {%- do check_scoring_parameters() -%}
  {%- do verdict_threshold() -%}
  {%- do check_as_of(models) -%}
  {%- do check_lock() -%}
  {%- do check_sources() -%}
  {%- if is_distributed() -%} {%- do check_cluster() -%} {%- endif -%}
  {%- do check_places() -%}
  {%- do check_last_run(models) -%}
  {%- do check_full_refresh(models) -%}
  {%- do check_readers() -%}
{% endmacro %}

{#- Python models need the package, which extends dbt's adapter (python/dbt_postgres_python.py). -#}
{% macro check_package() %}
  {%- set version = graph.nodes['model.ciris_scoring.int_runs'].config.meta['package_version'] -%}
  {%- set install = "in a checkout of the repository at version " ~ version ~ ": pip install ." -%}
  {%- if adapter.ciris_scoring_version is not defined -%}
    {%- do refuse("The Python package ciris-scoring is missing in the environment that this dbt runs in, so its Python "
      ~ "models cannot run. Install it there, " ~ install) -%}
  {%- elif adapter.ciris_scoring_version() != version -%}
    {%- do refuse("The dbt project ciris_scoring is version " ~ version ~ ", but the Python package in the environment that "
      ~ "this dbt runs in is " ~ adapter.ciris_scoring_version() ~ ". Install the same one there, " ~ install) -%}
  {%- endif -%}
{% endmacro %}

{#- For ciris-scoring check: sources, parameters in force except secret ones, and the newest published as-of. -#}
{% macro fitness() %}
  {%- set parameters = {} -%}
  {%- for name, definition in scoring_parameter_definitions().items() if not definition.get('secret') -%}
    {%- do parameters.update({name: scoring_parameter(name)}) -%}
  {%- endfor -%}
  {%- set ownership = ownership_faults() -%}
  {%- set published = none if ownership else last_publication() -%}
  {{ return({'source_shape': source_shape(), 'sources': source_report(), 'remarks': source_remarks() + function_remarks(),
             'ownership': ownership, 'parameters': parameters,
             'published_until': published['published_until'] if published else none}) }}
{% endmacro %}

{#- 1.0.0 is the first release: tables of earlier states have other columns. -#}
{% macro check_earlier_state() %}
  {%- set node = graph.nodes['model.ciris_scoring.int_scoring_run'] -%}
  {%- set schemas = [] -%}
  {%- for unique_id in graph.nodes if unique_id.startswith('model.ciris_scoring.') -%}
    {%- do schemas.append(graph.nodes[unique_id].schema) -%}
  {%- endfor -%}
  {%- if adapter.get_relation(node.database, node.schema, 'int_score_publications') is not none -%}
    {%- do refuse("Schema " ~ node.schema ~ " holds tables of a version before 1.0.0, the first release, which this version "
      ~ "cannot go on from. Drop the schemas " ~ schemas | unique | sort | join(', ') ~ ", or name another schema in the "
      ~ "profile; the next run scores the whole history.") -%}
  {%- endif -%}
{% endmacro %}

{#- Agents' names are in any script, and the cleaning SQL holds characters that only Unicode has. A model is written in
    one transaction. -#}
{% macro check_database() %}
  {%- set encoding = run_query("show server_encoding")[0][0] -%}
  {%- if encoding != 'UTF8' -%}
    {{ refuse(
      "Database " ~ target.dbname ~ " has the encoding " ~ encoding ~ ", but it must be UTF8. Copy it with pg_dump and "
      ~ "psql into one made by: create database NAME template template0 encoding 'UTF8'; and name that in the profile.") }}
  {%- elif target.get('autocommit') -%}
    {{ refuse(
      "Target " ~ target.name ~ " has autocommit: true, but a model is written in one transaction. Take autocommit out "
      ~ "of the profile.") }}
  {%- endif -%}
{% endmacro %}

{#- The as-of is not in the future, not before the newest published one (scoring.md §9) and not before every trace. A part
    has that of its run. -#}
{% macro check_as_of(models) %}
  {%- set as_of = as_of_datetime() -%}
  {%- if as_of > modules.pytz.utc.localize(modules.datetime.datetime.utcnow()) -%}
    {{ refuse(
      "Variable ciris_as_of is " ~ as_of ~ ", which is in the future; it must be the end of a period that is over.") }}
  {%- endif -%}
  {%- set earliest = time_variable('traces_from') -%}
  {%- if as_of < earliest -%}
    {{ refuse(
      "Variable ciris_as_of is " ~ as_of ~ ", which lies before the variable ciris_traces_from, " ~ earliest ~ ". No trace before "
      ~ "that takes part in a score: write a later time, or set ciris_traces_from earlier.") }}
  {%- endif -%}
  {%- set continued = continued_run(models) -%}
  {%- if continued is not none and setting('as_of') is not none
      and as_of.replace(tzinfo=none).isoformat() ~ 'Z' != shown_time(continued['as_of']) -%}
    {{ refuse(
      "Variable ciris_as_of is " ~ shown(setting('as_of')) ~ ", but a part can only be built as of its run, "
      ~ shown_time(continued['as_of']) ~ ". Leave ciris_as_of out, or run from the beginning: "
      ~ (command_of(continued) ~ "." if not continued['has_ended'] and (continued['is_full_refresh'] or continued['backfill_first'])
         else "ciris-scoring run (in plain dbt: dbt build).")) }}
  {%- endif -%}
  {%- set published = last_publication() -%}
  {%- if published is not none and not is_full_refresh() and setting('backfill') is none -%}
    {%- set newest = modules.pytz.utc.localize(
        modules.datetime.datetime.fromisoformat(published['published_until'])) -%}
    {%- if as_of < newest -%}
      {{ refuse(
        "The run's as-of " ~ as_of ~ " precedes the newest published one, " ~ newest ~ ". Leave --as-of (in plain "
        ~ "dbt ciris_as_of) out, or give that time or a later one. To score earlier as-ofs again: ciris-scoring run "
        ~ "--from TIME --to TIME.") }}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- One run at a time: ciris-scoring holds an advisory lock for the whole run, on its own connection. -#}
{% macro check_lock() %}
  {%- set others = run_query(run_lock_holders()).columns[0].values() | reject('equalto', setting('lock_holder_pid')) | list -%}
  {%- if others | length > 0 -%}
    {{ refuse(
      "Another run holds the lock on schema " ~ target.schema ~ " (database process " ~ others[0]
      ~ "). Wait until it has ended.") }}
  {%- endif -%}
{% endmacro %}

{#- Whether a model or seed is built from nothing, as dbt's should_full_refresh() answers for it. -#}
{% macro is_rebuilt(node) %}
  {%- set given = node.config.get('full_refresh') -%}
  {{ return((flags.FULL_REFRESH or false) if given is none else given) }}
{% endmacro %}

{#- Whether a run is a full refresh. int_scoring_run answers for all, because it says how much each of them scores. -#}
{% macro is_full_refresh() %}
  {%- if not execute -%} {{ return(false) }} {%- endif -%}
  {{ return(is_rebuilt(graph.nodes['model.ciris_scoring.int_scoring_run'])) }}
{% endmacro %}

{#- All nodes are built from nothing, or none: one alone would keep only what this run scores. -#}
{% macro check_refreshed_together() %}
  {%- if flags.FULL_REFRESH and not is_full_refresh() -%}
    {{ refuse(
      "Option --full-refresh is set, but the setting full_refresh of int_scoring_run is false, so nothing would be built from "
      ~ "nothing. Take +full_refresh of ciris_scoring out of dbt_project.yml, or leave --full-refresh out.") }}
  {%- endif -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed']
      and node.name != 'int_runs' and is_rebuilt(node) != is_full_refresh() -%}
    {{ refuse(
      "Setting full_refresh of " ~ node.resource_type ~ " " ~ node.name ~ " is " ~ shown(is_rebuilt(node)) ~ ", but this run "
      ~ ("is a full refresh" if is_full_refresh() else "is not a full refresh") ~ ", and tables part old, part new would "
      ~ "follow. Take +full_refresh of ciris_scoring out of dbt_project.yml, or write it below the project's own name.") }}
  {%- endfor -%}
{% endmacro %}

{#- A full refresh replaces published scores only if somebody asks for it, and all of them: a part would keep what the
    last run scored alone. -#}
{% macro check_full_refresh(models) %}
  {%- do check_refreshed_together() -%}
  {%- set continued = continued_run(models) -%}
  {%- if is_full_refresh() and not setting('allow_rescoring') and last_publication() is not none -%}
    {%- set incremental = [] -%}
    {%- for unique_id in models -%}
      {%- set model = graph.nodes[unique_id] -%}
      {#- int_scoring_run is not incremental, but tells the incremental models how much to rewrite. -#}
      {%- set keeps_history = model.config.materialized == 'replace_range' and 'range' in model.config.meta and model.name != 'int_runs' -%}
      {%- if keeps_history or model.name == 'int_scoring_run' -%}
        {%- do incremental.append(model.name) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if incremental | length > 0 -%}
      {{ refuse(
        "A full refresh would replace the scores published in schema " ~ target.schema ~ " (it would rebuild "
        ~ incremental | sort | join(', ') ~ "). If that is what you want, add --vars 'ciris_allow_rescoring: true' (with "
        ~ "ciris-scoring: --allow-rescoring); else leave --full-refresh out, or publish under another schema.") }}
    {%- endif -%}
  {%- endif -%}
  {%- if is_full_refresh() and continued is not none and not continued['is_full_refresh'] -%}
    {{ refuse(
      "A part of schema " ~ target.schema ~ " cannot be refreshed fully alone: it would keep only what the last run scored. "
      ~ "Leave --full-refresh out, or build everything: ciris-scoring run --full-refresh --allow-rescoring.") }}
  {%- endif -%}
{% endmacro %}

{#- Which runs an unfinished run allows next; any, if nothing is published. -#}
{% macro check_last_run(models) %}
  {%- do check_parts(models) -%}
  {%- do check_parameters_of_parts(models) -%}
  {%- if 'model.ciris_scoring.int_scoring_run' in models and not is_full_refresh() -%}
    {%- set last = last_run() or {'has_ended': true} -%}
    {%- if not last['has_ended'] and last_publication() is not none -%}
      {%- do refuse_after_full_refresh(last) -%}
      {%- do refuse_after_backfill(last) -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- The command that finishes an unfinished run. -#}
{% macro command_of(last) %}
  {%- if last['is_full_refresh'] -%} {{ return('ciris-scoring run --full-refresh --allow-rescoring') }} {%- endif -%}
  {%- if last['backfill_first'] is none -%} {{ return('ciris-scoring run') }} {%- endif -%}
  {{ return('ciris-scoring run --from ' ~ shown_time(last['backfill_first']) ~ ' --to ' ~ shown_time(last['backfill_last'])
            ~ ' --allow-rescoring') }}
{% endmacro %}

{#- An unfinished full refresh leaves tables part old, part new: only its repetition may follow. -#}
{% macro refuse_after_full_refresh(last) %}
  {%- if last['is_full_refresh'] -%}
    {{ refuse(
      "The full refresh that began at " ~ shown_time(last['started_at']) ~ " did not end, so the tables behind the scores in "
      ~ "schema " ~ target.schema ~ " are part old, part new. Repeat it, with the same variables: " ~ command_of(last)
      ~ " (in plain dbt --full-refresh --vars 'ciris_allow_rescoring: true').") }}
  {%- endif -%}
{% endmacro %}

{#- An unfinished backfill has judged some traces again, but not those after them: it must be repeated, or a full
    refresh made. -#}
{% macro refuse_after_backfill(last) %}
  {%- set backfill = setting('backfill') or {} -%}
  {%- set first, last_as_of = shown_time(last['backfill_first']), shown_time(last['backfill_last']) -%}
  {%- if last['backfill_first'] is not none and (backfill.get('first'), backfill.get('last')) != (first, last_as_of) -%}
    {{ refuse(
      "The backfill from " ~ first ~ " to " ~ last_as_of ~ " did not end, so some traces in schema " ~ target.schema
      ~ " are judged again and those after them are not. Go on with it: " ~ command_of(last) ~ ".") }}
  {%- endif -%}
{% endmacro %}
