{#- The table of a model or seed as an earlier run left it, or none. It is not read by ref(), which would create a
    cycle. -#}
{% macro relation_as_left(name) %}
  {%- if not execute -%} {{ return(none) }} {%- endif -%}
  {%- set model = graph.nodes.get('model.ciris_scoring.' ~ name) or graph.nodes.get('seed.ciris_scoring.' ~ name) -%}
  {%- if model is none -%} {{ return(none) }} {%- endif -%}
  {{ return(adapter.get_relation(model.database, model.schema, model.alias)) }}
{% endmacro %}

{#- SQL of run_id of the last publication, from int_scoring_run. It is found by ids and not by times, because the
    server's clock may have been corrected. The table of an earlier version may lack a column, so the row is read as
    JSON. state: the row. -#}
{% macro last_publication_id(state) -%}
  coalesce({{ state }} ->> 'published_by', {{ state }} ->> 'published_before')::uuid
{%- endmacro %}

{#- The last publication as a row, or none. run_id: as in int_runs. newest_published_as_of: newest as-of with a score.
    published_until: as-of of the run; all earlier as-ofs are scored. final_until and parameter_set_id: as in int_runs.
    Times are text (utc_text). -#}
{% macro last_publication() %}
  {%- if graph.get('last_publication', {}).get('invocation_id') == invocation_id -%} {{ return(graph['last_publication'].row) }} {%- endif -%}
  {%- set scores = relation_as_left('fct_capacity_scores') -%}
  {%- set publications = relation_as_left('int_runs') -%}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scores is none or publications is none -%} {{ return(none) }} {%- endif -%}
  {%- set rows = run_query("
    select
      p.run_id,
      " ~ utc_text('p.newest_as_of') ~ " as newest_published_as_of,
      " ~ utc_text('p.published_until') ~ " as published_until,
      " ~ utc_text('p.final_until') ~ " as final_until,
      p.parameter_set_id
    from " ~ publications ~ " as p
    where p.newest_as_of is not null and exists (select 1 from " ~ scores ~ ")
    order by " ~ ("" if scoring_run is none else
      "p.run_id = (select " ~ last_publication_id('to_jsonb(run)') ~ " from " ~ scoring_run ~ " as run) desc nulls last, ")
      ~ "p.published_at desc
    limit 1") -%}
  {%- set row = rows[0] if rows | length > 0 else none -%}
  {%- do graph.update({'last_publication': {'invocation_id': invocation_id, 'row': row}}) -%}
  {{ return(row) }}
{% endmacro %}

{#- The row of int_scoring_run from the last run, or none. Times are text (utc_text), lists are JSON. has_ended: whether
    the run was published. The table of an earlier version may lack a column, which is then null. -#}
{% macro last_run() %}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scoring_run is none -%} {{ return(none) }} {%- endif -%}
  {%- set columns = [] -%}
  {%- for name in ['started_at', 'as_of', 'cutoff', 'rechecked_from'] -%}
    {%- set time = "(run.state ->> '" ~ name ~ "')::timestamptz" -%}
    {%- do columns.append("case when isfinite(" ~ time ~ ") then " ~ utc_text(time) ~ " end as " ~ name) -%}
  {%- endfor -%}
  {%- for name in ['parameter_set_id', 'run_id', 'newest_event_id', 'earlier_event_id', 'known_event_id', 'longest_horizon'] -%}
    {%- do columns.append("run.state ->> '" ~ name ~ "' as " ~ name) -%}
  {%- endfor -%}
  {%- set rows = run_query("
    select " ~ columns | join(', ') ~ ",
      (run.state ->> 'is_full_refresh')::boolean as is_full_refresh,
      coalesce(run.state -> 'built_nodes', '[]')::text as built_nodes,
      coalesce(run.state -> 'failed_tests', '[]')::text as failed_tests,
      run.state ->> 'published_by' is not null as has_ended
    from (select to_jsonb(scoring_run) as state from " ~ scoring_run ~ " as scoring_run) as run") -%}
  {{ return(rows[0] if rows | length > 0 else none) }}
{% endmacro %}

{#- The run that this invocation continues, or none if it starts a new run. It continues a run if it builds a part
    (--select) or the rest of a failed run (dbt retry, which does not name its models). -#}
{% macro continued_run(models) %}
  {%- set last = none if 'model.ciris_scoring.int_scoring_run' in models else last_run() -%}
  {%- if last is none or (last['has_ended'] and not models) -%}
    {{ return(none) }}
  {%- elif shared_run() and not that_follow_run(models) -%}
    {{ return(none) }}
  {%- endif -%}
  {{ return(last) }}
{% endmacro %}
