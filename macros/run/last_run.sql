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
    published_until: as-of of the run; all earlier as-ofs are scored. version, final_until and parameter_set_id: as in
    int_runs. Times are text (utc_text). -#}
{% macro last_publication() %}
  {%- set scores, publications = relation_as_left('fct_capacity_scores'), relation_as_left('int_runs') -%}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scores is none or publications is none -%} {{ return(none) }} {%- endif -%}
  {%- set rows = ask("
    select
      p.run_id,
      " ~ utc_text('p.newest_as_of') ~ " as newest_published_as_of,
      " ~ utc_text('p.published_until') ~ " as published_until,
      " ~ utc_text('p.final_until') ~ " as final_until,
      p.parameter_set_id,
      p.version
    from " ~ publications ~ " as p
    where p.newest_as_of is not null and exists (select 1 from " ~ scores ~ ")
    order by " ~ ("" if scoring_run is none else
      "p.run_id = (select " ~ last_publication_id('to_jsonb(run)') ~ " from " ~ scoring_run ~ " as run) desc nulls last, ")
      ~ "p.published_at desc
    limit 1") -%}
  {{ return(rows[0] if rows | length > 0 else none) }}
{% endmacro %}

{#- The row of int_scoring_run from the last run, or none. Times are text (utc_text), null if infinite. has_ended: whether
    the run was published. The table of an earlier version may lack a
    column, which is then null. -#}
{% macro last_run() %}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scoring_run is none -%} {{ return(none) }} {%- endif -%}
  {%- set columns = [] -%}
  {%- for name in ['started_at', 'as_of', 'cutoff', 'rechecked_from', 'lookback_from'] -%}
    {%- set moment = "(run.state ->> '" ~ name ~ "')::timestamptz" -%}
    {%- do columns.append("case when isfinite(" ~ moment ~ ") then " ~ utc_text(moment) ~ " end as " ~ name) -%}
  {%- endfor -%}
  {%- for name in ['parameter_set_id', 'run_id', 'newest_event_id', 'earlier_event_id', 'known_event_id', 'longest_horizon'] -%}
    {%- do columns.append("run.state ->> '" ~ name ~ "' as " ~ name) -%}
  {%- endfor -%}
  {%- set rows = ask("
    select " ~ columns | join(', ') ~ ",
      (run.state ->> 'is_full_refresh')::boolean as is_full_refresh,
      run.state ->> 'published_by' is not null as has_ended
    from (select to_jsonb(scoring_run) as state from " ~ scoring_run ~ " as scoring_run) as run") -%}
  {{ return(rows[0] if rows | length > 0 else none) }}
{% endmacro %}
