{#- Start of an increment (scoring.md §9): models score the as-ofs after it. The start is -infinity for a model that is
    built from scratch. The macro returns a literal and not a subquery, so that the planner knows how few rows are read.
    -#}
{% macro cutoff() %}
  {{ return(bound_of_run('cutoff')) }}
{% endmacro %}

{#- Time from which traces are checked again: the cutoff, or earlier if as-ofs are scored again. -#}
{% macro rechecked_from() %}
  {{ return(bound_of_run('rechecked_from')) }}
{% endmacro %}

{#- The as-of of the run. It is read from int_scoring_run, because dbt retry may be called without the as-of, or days
    later. -#}
{% macro run_as_of() %}
  {%- if model.resource_type == 'unit_test' -%} {{ return(as_of()) }} {%- endif -%}
  {{ return(bounds_of_run().get('as_of', as_of())) }}
{% endmacro %}

{#- Value of a column of int_scoring_run; -infinity for a model that is built from scratch. -#}
{% macro bound_of_run(column) %}
  {%- set bounds = bounds_of_run() -%}
  {%- set is_from_nothing = config.get('materialized') == 'replace_range' and not is_incremental() -%}
  {{ return("timestamptz '-infinity'" if is_from_nothing else bounds.get(column, "timestamptz '-infinity'")) }}
{% endmacro %}

{#- Times in int_scoring_run as SQL literals, and the event after which late events are searched; empty before int_scoring_run is built. A run needs them more than a
    hundred times, so they are read once per invocation and kept in dbt's graph. -#}
{% macro bounds_of_run() %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not execute or load_cached_relation(scoring_run) is none -%} {{ return({}) }} {%- endif -%}
  {%- if graph.get('bounds_of_run', {}).get('invocation_id') != invocation_id -%}
    {%- set moments = {
        'as_of': 'as_of', 'cutoff': 'cutoff', 'rechecked_from': 'rechecked_from', 'lookback_from': 'lookback_from',
    } -%}
    {%- set texts = [] -%}
    {%- for name, moment in moments.items() -%}
      {%- do texts.append("case when isfinite(" ~ moment ~ ") then " ~ utc_text(moment) ~ " end as " ~ name) -%}
    {%- endfor -%}
    {%- set known = "coalesce(known_event_id, earlier_event_id, 0) as known_event_id" -%}
    {%- set row = run_query("select " ~ texts | join(', ') ~ ", " ~ known ~ " from " ~ scoring_run)[0] -%}
    {%- set bounds = {'invocation_id': invocation_id, 'known_event_id': row['known_event_id']} -%}
    {%- for name in moments if row[name] is not none -%}
      {%- do bounds.update({name: utc_literal(row[name])}) -%}
    {%- endfor -%}
    {%- do graph.update({'bounds_of_run': bounds}) -%}
  {%- endif -%}
  {{ return(graph['bounds_of_run']) }}
{% endmacro %}

{#- Condition of the as-ofs that a run scores. -#}
{% macro in_scored_range(column) -%}
  ({{ column }} > {{ cutoff() }} and {{ column }} <= {{ run_as_of() }})
{%- endmacro %}

{#- Condition of the times (or starts of periods and hours) of the traces that a run checks. -#}
{% macro in_checked_range(column) -%}
  ({{ column }} >= {{ rechecked_from() }} and {{ column }} < {{ run_as_of() }})
{%- endmacro %}

{#- Condition of the rows that a run rewrites. column: meta.range of the model, which is all, as_of, run_id or a time of
    traces. Rows after the as-of are left from an unfinished run and are deleted. -#}
{% macro in_rewritten_range(column) -%}
  {%- if column == 'all' -%}
    true
  {%- elif column == 'run_id' -%}
    run_id = '{{ run_id() }}'
  {%- else -%}
    {{ column ~ ' > ' ~ cutoff() if column == 'as_of' else column ~ ' >= ' ~ rechecked_from() }}
  {%- endif -%}
{%- endmacro %}

{#- Time from which late arrivals are reported. -#}
{% macro late_from() %}
  {%- set lookback_from = bounds_of_run().get('lookback_from', "timestamptz '-infinity'") -%}
  {{ return("(" ~ lookback_from ~ " - " ~ setting('late_detection_periods') ~ " * " ~ period_length() ~ ")") }}
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
  {{ return(none if is_full_refresh() else relation_as_left('int_trace_checks')) }}
{% endmacro %}

{#- Time from which traces are checked again: -infinity without checks of earlier runs. -#}
{% macro checked_from() %}
  {%- set bounds = bounds_of_run() -%}
  {{ return(bounds.get('rechecked_from', "timestamptz '-infinity'") if earlier_checks() else "timestamptz '-infinity'") }}
{% endmacro %}
