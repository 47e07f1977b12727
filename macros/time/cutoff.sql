{#- Where an increment starts (section 9), as an SQL literal: every model by as-of scores the as-ofs after it, and
    reads further back only what its windows need. -infinity for a model that is built from nothing.
    A literal, not a subquery, so that the planner sees how little an increment reads. -#}
{% macro cutoff() %}
  {{ return(bound_of_run('cutoff')) }}
{% endmacro %}

{#- From when on a run judges the traces again: the cutoff, but for a backfill, which judges more than it scores. -#}
{% macro rejudged_from() %}
  {{ return(bound_of_run('rejudged_from')) }}
{% endmacro %}

{#- Looked up once per invocation, in which int_scoring_run does not change once it can be read, and kept in dbt's graph:
    a run asks more than a hundred times. -#}
{% macro bound_of_run(column) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- set is_from_nothing = config.get('materialized') == 'incremental' and not is_incremental() -%}
  {%- if not execute or is_from_nothing or load_cached_relation(scoring_run) is none -%}
    {{ return("timestamptz '-infinity'") }}
  {%- endif -%}
  {%- if graph.get('bounds_of_run', {}).get('invocation_id') != invocation_id -%}
    {%- set bounds = {'invocation_id': invocation_id} -%}
    {%- set rows = run_query("
      select " ~ utc_text('cutoff') ~ " as cutoff, " ~ utc_text('rejudged_from') ~ " as rejudged_from,
        " ~ utc_text('least(cutoff, rejudged_from)') ~ " as counted_from
      from " ~ scoring_run ~ " where isfinite(least(cutoff, rejudged_from))") -%}
    {%- for name in ['cutoff', 'rejudged_from', 'counted_from'] -%}
      {%- do bounds.update({name: utc_literal(rows[0][name]) if rows | length > 0 else "timestamptz '-infinity'"}) -%}
    {%- endfor -%}
    {%- do graph.update({'bounds_of_run': bounds}) -%}
  {%- endif -%}
  {{ return(graph['bounds_of_run'][column]) }}
{% endmacro %}

{#- Before the cutoff by the longest scoring window: no window that this run scores begins earlier. -#}
{% macro windows_from() %}
  {{ return(cutoff() ~ " - " ~ length_in_run('longest_window')) }}
{% endmacro %}

{#- Before the cutoff by the longest memory a score has: the scoring window plus its baseline or its coherence
    window. -#}
{% macro read_from() %}
  {{ return(cutoff() ~ " - " ~ length_in_run('longest_memory')) }}
{% endmacro %}

{#- A length of time in int_scoring_run. Workers of a cluster take no subquery there, and so a literal. -#}
{% macro length_in_run(column) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if execute and is_distributed() and load_cached_relation(scoring_run) is not none -%}
    {{ return("interval '" ~ run_query("select " ~ column ~ "::text from " ~ scoring_run)[0][0] ~ "'") }}
  {%- endif -%}
  {{ return("(select run." ~ column ~ " from " ~ scoring_run ~ " as run)") }}
{% endmacro %}
