{{ config(materialized='view') }}
{#- Every attempt to publish scores and what became of it, and every publication of plain dbt, which says nothing of
    its attempts. Grain and key: scoring_run_id. What a run that did not publish cannot know is null. -#}
with attempts as (

    select
        run_attempt_id,
        started_at,
        ended_at,
        command,
        as_of,
        outcome,
        exit_code,
        message,
        remedy,
        n_scores,
        n_late_traces,
        first_half_seconds,
        steps_seconds,
        second_half_seconds,
        version
    from {{ ref('int_run_attempts') }}

),

publications as (

    select
        published_at,
        run_as_of
    from {{ ref('int_score_publications') }}

),

published_by_dbt as (

    select
        publications.published_at,
        publications.run_as_of
    from publications
    where not exists (
        select 1
        from attempts
        where
            publications.published_at >= attempts.started_at
            and publications.published_at <= coalesce(attempts.ended_at, 'infinity')
    )

)

select
    run_attempt_id::text as scoring_run_id,
    started_at,
    ended_at,
    extract(epoch from ended_at - started_at)::double precision as seconds,
    command,
    as_of,
    coalesce(outcome, 'unfinished') as outcome,
    exit_code,
    message,
    remedy,
    n_scores,
    n_late_traces,
    first_half_seconds,
    steps_seconds,
    second_half_seconds,
    version
from attempts

union all

select
    {{ surrogate_key(['published_at']) }} as scoring_run_id,
    null as started_at,
    published_at as ended_at,
    null as seconds,
    'dbt' as command,
    run_as_of as as_of,
    'published' as outcome,
    null as exit_code,
    null as message,
    null as remedy,
    null as n_scores,
    null as n_late_traces,
    null as first_half_seconds,
    null as steps_seconds,
    null as second_half_seconds,
    null as version
from published_by_dbt
