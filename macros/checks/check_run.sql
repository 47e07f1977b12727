{#- Called before anything is built: stops a run that cannot end well, with a line that names the thing, its value and
    the remedy. -#}
{% macro check_run() %}
  {%- if execute and flags.WHICH in ['run', 'build'] and selected_resources is defined -%}
    {%- set models = [] -%}
    {%- for unique_id in selected_resources if unique_id.startswith('model.ciris_scoring.') -%}
      {%- do models.append(unique_id) -%}
    {%- endfor -%}
    {%- if models | length > 0 -%}
      {%- do check_run_of(models) -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- The same for a run of these models; it writes nothing. -#}
{% macro check_run_of(models) %}
  {%- do warn_of_old_names() -%}
  {%- do check_encoding() -%}
  {%- do check_scoring_parameters() -%}
  {%- do check_as_of() -%}
  {%- do lookback_periods() -%}
  {%- do check_lock() -%}
  {%- do check_sources() -%}
  {%- do check_distribution() -%}
  {%- do check_last_run(models) -%}
  {%- do check_full_refresh(models) -%}
  {%- do check_settings() -%}
{% endmacro %}

{#- What ciris-scoring check asks for: the sources, the parameters in force but for secret ones, and up to when scores are
    published. -#}
{% macro fitness() %}
  {%- set parameters = {} -%}
  {%- for name, definition in scoring_parameter_definitions().items() if not definition.get('secret') -%}
    {%- do parameters.update({name: scoring_parameter(name)}) -%}
  {%- endfor -%}
  {%- set published = last_publication() -%}
  {{ return({'source_shape': source_shape(), 'sources': source_report(), 'remarks': source_remarks(),
             'parameters': parameters,
             'published_until': published['published_until'] if published else none}) }}
{% endmacro %}

{#- Names that variables had before 0.2.0 still count where this is the root project (setting). -#}
{% macro warn_of_old_names() %}
  {%- for name in names_before_prefix() if project_name == 'ciris_scoring' and var(name, none) is not none -%}
    {%- if 'ciris_' ~ name in invocation_args_dict.get('vars', {}) and name not in ['as_of', 'allow_rescoring'] -%}
      {{ exceptions.raise_compiler_error(
        "The variable " ~ name ~ " is set to " ~ shown(var(name)) ~ " by the name that it had before 0.2.0, and ciris_" ~ name
        ~ " by --vars. Rename the first to ciris_" ~ name ~ ", or leave it out.") }}
    {%- endif -%}
    {%- do exceptions.warn(
        "The variable " ~ name ~ " is called ciris_" ~ name ~ " now; 0.3.0 will not know the old name any more.") -%}
  {%- endfor -%}
{% endmacro %}

{#- Text is cleaned of characters that only Unicode has, and names are in any script. -#}
{% macro check_encoding() %}
  {%- set encoding = run_query("show server_encoding")[0][0] -%}
  {%- if encoding != 'UTF8' -%}
    {{ exceptions.raise_compiler_error(
      "Database " ~ target.dbname ~ " has the encoding " ~ encoding ~ ", but it must be UTF8. Copy it with pg_dump and "
      ~ "psql into one made by: create database NAME template template0 encoding 'UTF8'; and name that in the profile.") }}
  {%- endif -%}
{% endmacro %}

{#- Scores are published for the past, never for an as-of before the newest published one (scoring.md §9), or before any
    trace. -#}
{% macro check_as_of() %}
  {%- set as_of = as_of_datetime() -%}
  {%- if as_of > modules.pytz.utc.localize(modules.datetime.datetime.utcnow()) -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_as_of is " ~ as_of ~ ", which is in the future; it must be the end of a period that is over.") }}
  {%- endif -%}
  {%- set earliest = time_variable('traces_from') -%}
  {%- if as_of < earliest -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_as_of is " ~ as_of ~ ", which lies before the variable ciris_traces_from, " ~ earliest ~ ". No trace before "
      ~ "that takes part in a score: write a later time, or set ciris_traces_from earlier.") }}
  {%- endif -%}
  {%- if setting('backfill') is not none and setting('lock_holder_pid') is none -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_backfill is set by ciris-scoring alone. Run: ciris-scoring run --from TIME --to TIME.") }}
  {%- endif -%}
  {%- set published = last_publication() -%}
  {%- if published is not none and not flags.FULL_REFRESH and setting('backfill') is none -%}
    {%- set newest = modules.pytz.utc.localize(
        modules.datetime.datetime.fromisoformat(published['published_until'])) -%}
    {%- if as_of < newest -%}
      {{ exceptions.raise_compiler_error(
        "The run's as-of " ~ as_of ~ " precedes the newest published one, " ~ newest ~ ". Leave --as-of (in plain "
        ~ "dbt ciris_as_of) out, or give that time or a later one. To score earlier as-ofs again: ciris-scoring run "
        ~ "--from TIME --to TIME.") }}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- One run at a time: ciris-scoring holds an advisory lock on a connection of its own for a whole run. -#}
{% macro check_lock() %}
  {%- set others = run_query(run_lock_holders()).columns[0].values() | reject('equalto', setting('lock_holder_pid')) | list -%}
  {%- if others | length > 0 -%}
    {{ exceptions.raise_compiler_error(
      "Another run holds the lock on schema " ~ target.schema ~ " (database process " ~ others[0]
      ~ "). Wait until it has ended.") }}
  {%- endif -%}
{% endmacro %}

{#- Settings that would otherwise fail in the middle of a run. -#}
{% macro check_settings() %}
  {%- if target.get('autocommit') -%}
    {{ exceptions.raise_compiler_error(
      "Target " ~ target.name ~ " has autocommit: true, but a model is written in one transaction. Take autocommit out "
      ~ "of the profile.") }}
  {%- endif -%}
  {%- set periods = setting('late_detection_periods') -%}
  {%- if periods is not integer or periods is boolean or periods < 0 -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_late_detection_periods is " ~ shown(periods) ~ ", but must be a whole number of 0 or more periods.") }}
  {%- endif -%}
  {%- if not modules.re.match('^[1-9][0-9]*(kB|MB|GB)$', setting('scoring_work_mem') | string) -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_scoring_work_mem is " ~ shown(setting('scoring_work_mem')) ~ ", but must be a size such as 256MB.") }}
  {%- endif -%}
{% endmacro %}

{#- A full refresh scores again what was published: only when somebody says so. -#}
{% macro check_full_refresh(models) %}
  {%- if flags.FULL_REFRESH and not setting('allow_rescoring') and last_publication() is not none -%}
    {%- set incremental = [] -%}
    {%- for unique_id in models -%}
      {%- set model = graph.nodes[unique_id] -%}
      {#- int_scoring_run is no incremental model, but it tells them how much to rewrite. -#}
      {%- set keeps_history = model.config.materialized == 'replace_range' and 'rewritten' not in model.config.meta -%}
      {%- if keeps_history or model.name == 'int_scoring_run' -%}
        {%- do incremental.append(model.name) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if incremental | length > 0 -%}
      {{ exceptions.raise_compiler_error(
        "A full refresh would score again what is published in schema " ~ target.schema ~ " (it would rebuild "
        ~ incremental | sort | join(', ') ~ "). If that is what you want, add --vars 'ciris_allow_rescoring: true' (with "
        ~ "ciris-scoring: --allow-rescoring); else leave --full-refresh out, or publish under another schema.") }}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- What a run that did not end allows the next one to be; where nothing is published, anything. -#}
{% macro check_last_run(models) %}
  {%- if 'model.ciris_scoring.int_scoring_run' not in models -%}
    {%- do check_first_half(models) -%}
  {%- elif not flags.FULL_REFRESH -%}
    {%- set last = last_run() or {'has_ended': true} -%}
    {%- if not last['has_ended'] and last_publication() is not none -%}
      {%- do refuse_after_full_refresh(last) -%}
      {%- do refuse_after_backfill(last) -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- The command that brings a run to its end which did not. -#}
{% macro command_of(last) %}
  {%- if last['is_full_refresh'] -%} {{ return('ciris-scoring run --full-refresh --allow-rescoring') }} {%- endif -%}
  {%- if last['backfill_first'] is none -%} {{ return('ciris-scoring run') }} {%- endif -%}
  {{ return('ciris-scoring run --from ' ~ shown_time(last['backfill_first']) ~ ' --to ' ~ shown_time(last['backfill_last'])
            ~ ' --allow-rescoring') }}
{% endmacro %}

{#- A full refresh that did not end leaves part of the old history and part of the new in the tables that scores are
    made of. Only its repetition can follow. -#}
{% macro refuse_after_full_refresh(last) %}
  {%- if last['is_full_refresh'] -%}
    {{ exceptions.raise_compiler_error(
      "The full refresh that began at " ~ shown_time(last['started_at']) ~ " did not end, so the tables behind the scores in "
      ~ "schema " ~ target.schema ~ " are part old, part new. Repeat it, with the same variables: " ~ command_of(last)
      ~ " (in plain dbt --full-refresh --vars 'ciris_allow_rescoring: true').") }}
  {%- endif -%}
{% endmacro %}

{#- A backfill that did not end has judged some traces again and not those after them. It has to come to its end. -#}
{% macro refuse_after_backfill(last) %}
  {%- set backfill = setting('backfill') or {} -%}
  {%- set first, last_as_of = shown_time(last['backfill_first']), shown_time(last['backfill_last']) -%}
  {%- if last['backfill_first'] is not none and (backfill.get('first'), backfill.get('last')) != (first, last_as_of) -%}
    {{ exceptions.raise_compiler_error(
      "The backfill from " ~ first ~ " to " ~ last_as_of ~ " did not end, so some traces in schema " ~ target.schema
      ~ " are judged again and those after them are not. Go on with it: " ~ command_of(last) ~ ".") }}
  {%- endif -%}
{% endmacro %}

{#- The second half of a run in plain dbt publishes what its first half has built and tested, all of it. -#}
{% macro check_first_half(models) %}
  {%- set last = last_run() -%}
  {%- if last is not none and not last['has_ended'] and last['first_half_ended_at'] is none
      and models | select('in', after_resilience()) | list -%}
    {{ exceptions.raise_compiler_error(
      "The first half of the run that began at " ~ shown_time(last['started_at']) ~ " did not end, so what it would publish "
      ~ "in schema " ~ target.schema ~ " is part old, part new. Run again from the beginning: " ~ command_of(last)
      ~ ("." if last['is_full_refresh'] or last['backfill_first'] else " (in plain dbt: dbt build --selector before_resilience).")) }}
  {%- endif -%}
{% endmacro %}
