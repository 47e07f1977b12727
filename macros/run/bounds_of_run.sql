{#- Times of a run. Three are kept apart: the as-of, the cutoff, and the lookback horizon of an as-of. The others follow
    from them: lookback_from is the cutoff of a run that finishes and rescores nothing; rechecked_from is the cutoff or, if
    as-ofs are scored again, the cutoff minus the lookback horizon. -#}

{#- Start of an increment (scoring.md §9): models score the as-ofs after it. -infinity if the run scores everything. The
    macro returns a literal and not a subquery, so that the planner knows how few rows are read. -#}
{% macro cutoff() %}
  {{ return(bound_of_run('cutoff')) }}
{% endmacro %}

{#- Time from which traces are checked again: the cutoff, or earlier if as-ofs are scored again. -#}
{% macro rechecked_from() %}
  {{ return(bound_of_run('rechecked_from')) }}
{% endmacro %}

{#- The as-of of the run. It is read from int_scoring_run, because a command that continues a run may have another. -#}
{% macro run_as_of() %}
  {{ return(as_of() if model.resource_type == 'unit_test' else bound_of_run('as_of')) }}
{% endmacro %}

{#- A time of the run (last_run) as an SQL literal. ref() makes the node depend on int_scoring_run. -#}
{% macro bound_of_run(name) %}
  {%- set run, scoring_run = this_run(), ref('int_scoring_run') -%}
  {{ return("timestamptz '-infinity'" if run is none or run[name] is none else utc_literal(run[name])) }}
{% endmacro %}

{#- Whether the run scores every as-of: a first run, a full refresh, or a run after a full refresh that did not end. Only
    int_scoring_run asks; later, the cutoff of the run says the same. -#}
{% macro scores_everything() %}
  {%- if is_full_refresh() or last_publication() is none -%} {{ return(true) }} {%- endif -%}
  {%- set last = last_run() -%}
  {{ return(last is not none and last['is_full_refresh'] and not last['has_ended']) }}
{% endmacro %}

{#- Whether this invocation is a full refresh: the answer of dbt's should_full_refresh() for int_scoring_run, by whose
    cutoff all other models keep or rewrite their rows. -#}
{% macro is_full_refresh() %}
  {%- if not execute -%} {{ return(false) }} {%- endif -%}
  {%- set given = graph.nodes['model.ciris_scoring.int_scoring_run'].config.get('full_refresh') -%}
  {{ return((flags.FULL_REFRESH or false) if given is none else given) }}
{% endmacro %}

{#- Whether this model keeps rows of earlier runs. dbt's macro is_incremental does not support the materialization
    replace_range. -#}
{% macro is_incremental() %}
  {%- if not execute or config.get('materialized') != 'replace_range' or load_cached_relation(this) is none -%}
    {{ return(false) }}
  {%- endif -%}
  {{ return(is_incremental_run()) }}
{% endmacro %}

{#- Condition of the as-ofs that a run scores. -#}
{% macro in_scored_range(column) -%}
  ({{ column }} > {{ cutoff() }} and {{ column }} <= {{ run_as_of() }})
{%- endmacro %}

{#- Condition of the times (or starts of periods and hours) of the traces that a run checks. -#}
{% macro in_checked_range(column) -%}
  ({{ column }} >= {{ rechecked_from() }} and {{ column }} < {{ run_as_of() }})
{%- endmacro %}

{#- Condition of the rows that a run rewrites in the table of a model, by the column meta.range of the model: as_of,
    run_id or a time of traces. All rows if the model has no range, if its range is "all", or if the run scores everything.
    Rows after the as-of are left from an unfinished run and are deleted. -#}
{% macro rewritten_rows(node) -%}
  {%- set column = node.config.meta.get('range', 'all') -%}
  {%- if column == 'run_id' -%}
    run_id = {{ literal(run_id()) }}
  {%- elif column == 'all' or this_run() is none or this_run()['cutoff'] is none -%}
    true
  {%- else -%}
    {{ column ~ ' > ' ~ cutoff() if column == 'as_of' else column ~ ' >= ' ~ rechecked_from() }}
  {%- endif -%}
{%- endmacro %}

{#- Time from which late arrivals are reported. -#}
{% macro late_from() %}
  {{ return("(" ~ bound_of_run('lookback_from') ~ " - " ~ setting('late_detection_periods') ~ " * " ~ period_length() ~ ")") }}
{% endmacro %}

{#- First as-of that ciris_rescore_from has scored again; null without the variable, or if nothing is published. -#}
{% macro rescored_from() %}
  {%- set is_needed = setting('rescore_from') is not none and execute and last_publication() is not none -%}
  {{ return(utc_literal(period_end(time_variable('rescore_from')) if is_needed else none)) }}
{% endmacro %}

{#- The cutoff, or the time from which traces are checked again (bound: cutoff or rechecked_from), of ciris_rescore_from
    or of an unfinished last run, whichever is earlier; null without both. Traces are checked again from the lookback
    horizon before the first as-of that is scored again. last: the last run (last_run), or an empty dictionary. -#}
{% macro set_back_to(bound, last) %}
  {%- set is_unfinished = last and not last['has_ended'] and last_publication() is not none -%}
  {%- set length = period_length() ~ (" + interval '" ~ last['longest_horizon'] ~ "'" if bound == 'rechecked_from' and last else "") -%}
  {{ return("least(" ~ utc_literal(last[bound] if is_unfinished else none) ~ ", " ~ rescored_from() ~ " - (" ~ length ~ "))") }}
{% endmacro %}

{#- The checks of earlier runs; none if the run checks everything. -#}
{% macro earlier_checks() %}
  {{ return(relation_as_left('int_trace_checks') if rechecked_from() != "timestamptz '-infinity'" else none) }}
{% endmacro %}
