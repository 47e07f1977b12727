{#- The rows of a factor that this run publishes: as-ofs that it scores, and earlier ones that are not published although R
    and limits are there, because they waited for the Python step when their turn came. The components are published after
    the scores, so whoever has those has both. They are looked for where since_oldest_candidate says. -#}
{% macro to_be_published(rows) %}
  {%- set published = relation_as_left('int_published_components') if is_incremental() else none -%}
  (
        {{ in_scored_range(rows ~ '.as_of') }}
        {%- if published is not none %}
        or (
            {{ rows }}.as_of <= {{ cutoff() }}
            and not exists (
                select 1
                from {{ published }} as published
                where
                    published.agent_id_hash = {{ rows }}.agent_id_hash
                    and published.as_of = {{ rows }}.as_of
                    and published.window_days = {{ rows }}.window_days
            )
        )
        {%- endif %}
  )
{% endmacro %}

{#- From which as-of on an increment looks for candidates, as a comparison with a literal, so that the planner sees that
    it need not read years of them: the cutoff, or the oldest row for which the Python step has worked since the last
    publication. -#}
{% macro since_oldest_candidate() %}
  {%- if not (execute and is_incremental()) -%} {{ return("> timestamptz '-infinity'") }} {%- endif -%}
  {%- set rows = run_query("
    select " ~ utc_text('min(computed.as_of)') ~ " as oldest_as_of
    from (
      select scores.as_of, scores.computed_at
      from " ~ relation_as_left('int_resilience_scores') ~ " as scores
      union all
      select fleet_values.as_of, fleet_values.computed_at
      from " ~ relation_as_left('int_interval_fleet_values') ~ " as fleet_values
    ) as computed
    where
      computed.as_of <= " ~ cutoff() ~ "
      and computed.computed_at > (select run.last_published_at from " ~ ref('int_scoring_run') ~ " as run)") -%}
  {%- set oldest_as_of = rows[0]['oldest_as_of'] -%}
  {{ return('> ' ~ cutoff() if oldest_as_of is none else '>= ' ~ utc_literal(oldest_as_of)) }}
{% endmacro %}
