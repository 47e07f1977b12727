{#- From which as-of on an increment looks for candidates, as a comparison with a literal, so that the planner sees that
    it need not read years of them: the cutoff, or the oldest row that was still waiting for the Python step when
    int_capacity_scores was last written, or that has been scored and not been published since. -#}
{% macro since_oldest_candidate() %}
  {%- if not (execute and is_incremental()) -%} {{ return("> timestamptz '-infinity'") }} {%- endif -%}
  {%- set rows = run_query("
    select to_char(min(older.as_of) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')
    from (
      select scores.as_of
      from " ~ relation_as_left('int_resilience_scores', 'intermediate') ~ " as scores
      where scores.computed_at > (select coalesce(max(latest.scored_at), '-infinity') from " ~ this ~ " as latest)
      union all
      select scored.as_of
      from " ~ this ~ " as scored
      where scored.scored_at > (
        select coalesce(run.last_published_at, '-infinity') from " ~ ref('int_scoring_run') ~ " as run
      )
    ) as older
    where older.as_of <= " ~ cutoff()) -%}
  {%- if rows[0][0] is none -%} {{ return('> ' ~ cutoff()) }} {%- endif -%}
  {{ return(">= timestamptz '" ~ rows[0][0] ~ "+00'") }}
{% endmacro %}
