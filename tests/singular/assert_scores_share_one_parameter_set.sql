-- The newest scores that the run leaves as they are were made with the run's own parameters: a full refresh with
-- others that died before it was published must not be continued by an increment.
with run as (

    select
        cutoff,
        parameter_set_id
    from {{ ref('int_scoring_run') }}

)

select
    scores.capacity_score_id,
    scores.parameter_set_id
from {{ ref('fct_capacity_scores') }} as scores
cross join run
where
    scores.as_of = (
        select max(final_scores.as_of)
        from {{ ref('fct_capacity_scores') }} as final_scores
        where final_scores.as_of <= (select run.cutoff from run)
    )
    and scores.parameter_set_id <> run.parameter_set_id
