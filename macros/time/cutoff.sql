{#- Where an increment starts (scoring.md §9): models score the as-ofs after it. -infinity for a model that is built
    from nothing. A literal, not a subquery, so that the planner sees how little is read. -#}
{% macro cutoff() %}
  {{ return(bound_of_run('cutoff')) }}
{% endmacro %}

{#- From when on traces are judged again: the cutoff or later, but in a backfill earlier. -#}
{% macro rejudged_from() %}
  {{ return(bound_of_run('rejudged_from')) }}
{% endmacro %}

{#- Where an ordinary run would begin: traces before it that nobody judged are late. -#}
{% macro lookback_from() %}
  {{ return(bounds_of_run().get('lookback_from', "timestamptz '-infinity'")) }}
{% endmacro %}

{#- The run's as-of, from int_scoring_run: dbt retry may be called without the as-of, or days later. -#}
{% macro run_as_of() %}
  {%- if model.resource_type == 'unit_test' -%} {{ return(as_of()) }} {%- endif -%}
  {{ return(bounds_of_run().get('as_of', as_of())) }}
{% endmacro %}

{#- A column of int_scoring_run, or -infinity for a model that is built from nothing. -#}
{% macro bound_of_run(column) %}
  {%- set bounds = bounds_of_run() -%}
  {%- set is_from_nothing = config.get('materialized') == 'replace_range' and not is_incremental() -%}
  {{ return("timestamptz '-infinity'" if is_from_nothing else bounds.get(column, "timestamptz '-infinity'")) }}
{% endmacro %}

{#- The times in int_scoring_run as SQL literals; empty before it is built. A run asks more than a hundred times, so
    they are looked up once per invocation and kept in dbt's graph. -#}
{% macro bounds_of_run() %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not execute or load_cached_relation(scoring_run) is none -%} {{ return({}) }} {%- endif -%}
  {%- if graph.get('bounds_of_run', {}).get('invocation_id') != invocation_id -%}
    {%- set moments = {
        'as_of': 'as_of', 'cutoff': 'cutoff', 'rejudged_from': 'rejudged_from', 'counted_from': 'least(cutoff, rejudged_from)',
        'lookback_from': 'lookback_from', 'backfill_first': 'backfill_first',
    } -%}
    {%- set texts = [] -%}
    {%- for name, moment in moments.items() -%}
      {%- do texts.append("case when isfinite(" ~ moment ~ ") then " ~ utc_text(moment) ~ " end as " ~ name) -%}
    {%- endfor -%}
    {%- set row = run_query("select " ~ texts | join(', ') ~ " from " ~ scoring_run)[0] -%}
    {%- set bounds = {'invocation_id': invocation_id} -%}
    {%- for name in moments if row[name] is not none -%}
      {%- do bounds.update({name: utc_literal(row[name])}) -%}
    {%- endfor -%}
    {%- do graph.update({'bounds_of_run': bounds}) -%}
  {%- endif -%}
  {{ return(graph['bounds_of_run']) }}
{% endmacro %}

{#- Before the cutoff by the longest window: no window of this run begins earlier. -#}
{% macro windows_from() %}
  {{ return(cutoff() ~ " - " ~ length_in_run('longest_window')) }}
{% endmacro %}

{#- A length of time in int_scoring_run; a literal on a cluster, whose workers take no subquery there. -#}
{% macro length_in_run(column) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if execute and is_distributed() and load_cached_relation(scoring_run) is not none -%}
    {{ return("interval '" ~ run_query("select " ~ column ~ "::text from " ~ scoring_run)[0][0] ~ "'") }}
  {%- endif -%}
  {{ return("(select run." ~ column ~ " from " ~ scoring_run ~ " as run)") }}
{% endmacro %}
