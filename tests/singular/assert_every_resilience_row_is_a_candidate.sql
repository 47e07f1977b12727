-- Rows in, rows out: every row of the run that has an R and limits is a candidate, and every candidate has both. The
-- other four factors are joined to them, and a row that one of them lacked would be missing in the marts.
with computed as (

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_resilience') }}
    where {{ in_increment(ref('int_resilience')) }}

    intersect

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_score_intervals') }}
    where {{ in_increment(ref('int_score_intervals')) }}

),

resilience as (

    select
        *,
        true as is_there
    from computed

),

candidates as (

    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ ref('int_capacity_scores') }}
    where {{ in_increment(ref('int_resilience')) }}

)

select
    agent_id_hash,
    as_of,
    window_days
from resilience
full join candidates using (agent_id_hash, as_of, window_days)
where num_nulls(resilience.is_there, candidates.is_there) > 0
