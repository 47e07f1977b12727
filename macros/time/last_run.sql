{#- The table of a model or seed as an earlier run left it, or none. It is not read by ref(), which would create a
    cycle. -#}
{% macro relation_as_left(name) %}
  {%- if not execute -%} {{ return(none) }} {%- endif -%}
  {%- set model = graph.nodes.get('model.ciris_scoring.' ~ name) or graph.nodes.get('seed.ciris_scoring.' ~ name) -%}
  {%- if model is none -%} {{ return(none) }} {%- endif -%}
  {{ return(adapter.get_relation(model.database, model.schema, model.alias)) }}
{% endmacro %}

{#- The last publication as a row, or none. newest_published_as_of: newest as-of with a score. published_until: as-of of
    the run; all earlier as-ofs are scored. final_until, parameter_set_id and published_at: as in int_runs. Times are
    text (utc_text). -#}
{% macro last_publication() %}
  {%- set scores = relation_as_left('fct_capacity_scores') -%}
  {%- set publications = relation_as_left('int_runs') -%}
  {%- if scores is none or publications is none -%} {{ return(none) }} {%- endif -%}
  {%- set rows = run_query("
    select
      " ~ utc_text('p.newest_as_of') ~ " as newest_published_as_of,
      " ~ utc_text('p.published_until') ~ " as published_until,
      " ~ utc_text('p.final_until') ~ " as final_until,
      p.parameter_set_id,
      " ~ utc_text('p.published_at') ~ " as published_at
    from " ~ publications ~ " as p
    where p.newest_as_of is not null and exists (select 1 from " ~ scores ~ ")
    order by p.published_at desc
    limit 1") -%}
  {{ return(rows[0] if rows | length > 0 else none) }}
{% endmacro %}

{#- The row of int_scoring_run from the last run, or none. Times are text (utc_text), lists are JSON. has_ended: whether
    the run was published, and for a backfill, whether it reached its end. -#}
{% macro last_run() %}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scoring_run is none -%} {{ return(none) }} {%- endif -%}
  {%- set log = relation_as_left('int_runs') -%}
  {%- set columns = [] -%}
  {%- for name in ['started_at', 'as_of', 'cutoff', 'rechecked_from', 'backfill_first', 'backfill_last', 'backfill_until'] -%}
    {%- do columns.append("case when isfinite(run." ~ name ~ ") then " ~ utc_text('run.' ~ name) ~ " end as " ~ name) -%}
  {%- endfor -%}
  {%- set rows = run_query("
    select " ~ columns | join(', ') ~ ", run.is_full_refresh, run.checking_code, run.parameter_set_id, run.run_id,
      to_jsonb(run) ->> 'newest_event_id' as newest_event_id,
      to_json(run.built_nodes)::text as built_nodes, to_json(run.failed_tests)::text as failed_tests, "
      ~ ("false" if log is none else "exists (
        select 1
        from " ~ log ~ " as log
        where
          log.published_at > run.started_at
          and (run.backfill_until is null or log.backfill_reached = run.backfill_until)
      )") ~ " as has_ended
    from " ~ scoring_run ~ " as run") -%}
  {{ return(rows[0] if rows | length > 0 else none) }}
{% endmacro %}

{#- The run that this invocation continues, or none if it starts a new run. It continues a run if it builds a part
    (--select) or the rest of a failed run (dbt retry, which does not name its models). -#}
{% macro continued_run(models) %}
  {%- set last = last_run() -%}
  {%- if last is none or 'model.ciris_scoring.int_scoring_run' in models or (last['has_ended'] and not models) -%}
    {{ return(none) }}
  {%- elif shared_run() and not that_follow_run(models) -%}
    {{ return(none) }}
  {%- endif -%}
  {{ return(last) }}
{% endmacro %}
