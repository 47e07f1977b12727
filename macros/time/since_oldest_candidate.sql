{#- From which as-of on an increment looks for candidates, as a comparison with a literal, so that the planner sees that
    it need not read years of them: the cutoff, or the oldest row that was still waiting for the Python step when
    int_capacity_scores was last written, or that has been scored and not been published since. -#}
{% macro since_oldest_candidate() %}
  {%- if not (execute and is_incremental()) -%} {{ return("> timestamptz '-infinity'") }} {%- endif -%}
  {%- set rows = run_query("
    select " ~ utc_text('min(older.as_of)') ~ " as oldest_as_of
    from (
      select scores.as_of
      from " ~ relation_as_left('int_resilience_scores') ~ " as scores
      where scores.computed_at > (select coalesce(max(latest.scored_at), '-infinity') from " ~ this ~ " as latest)
      union all
      select fleet_values.as_of
      from " ~ relation_as_left('int_interval_fleet_values') ~ " as fleet_values
      where fleet_values.computed_at > (select coalesce(max(latest.scored_at), '-infinity') from " ~ this ~ " as latest)
      union all
      select scored.as_of
      from " ~ this ~ " as scored
      where scored.scored_at > (
        select coalesce(run.last_published_at, '-infinity') from " ~ ref('int_scoring_run') ~ " as run
      )
    ) as older
    where older.as_of <= " ~ cutoff()) -%}
  {%- set oldest_as_of = rows[0]['oldest_as_of'] -%}
  {{ return('> ' ~ cutoff() if oldest_as_of is none else '>= ' ~ utc_literal(oldest_as_of)) }}
{% endmacro %}
