-- A score without enough traces has no composite and no category, every other has all of them; status and confidence
-- follow from the number of traces and the agent's history; the window is as long as it says.
with candidates as (

    select
        *,
        n_traces < {{ scoring_parameter('min_traces') }} as is_insufficient,
        num_nulls(capacity_score, capacity_score_geometric, fragility_index, category) as n_nulls
    from {{ ref('int_capacity_scores') }}

),

histories as (

    select
        agent_id_hash,
        as_of,
        window_days,
        first_traced_at > window_start - {{ days(scoring_parameter('warm_up_days')) }} as is_warming_up
    from {{ ref('int_core_identity') }}
    where {{ in_increment(ref('int_core_identity')) }}

)

select
    candidates.capacity_score_id,
    candidates.n_traces,
    candidates.score_status,
    candidates.confidence,
    candidates.n_nulls
from candidates
left join histories
    on
        candidates.agent_id_hash = histories.agent_id_hash
        and candidates.as_of = histories.as_of
        and candidates.window_days = histories.window_days
where
    candidates.n_traces < 1
    or candidates.n_nulls <> case when candidates.is_insufficient then 4 else 0 end
    or candidates.is_insufficient <> (candidates.score_status = 'insufficient_data')
    or candidates.score_status not in ('insufficient_data', 'provisional', 'final')
    or (
        not candidates.is_insufficient
        and histories.is_warming_up is not null
        and histories.is_warming_up <> (candidates.score_status = 'provisional')
    )
    or candidates.confidence not in ('insufficient', 'low', 'medium', 'high')
    or (candidates.confidence = 'insufficient') <> (candidates.n_traces < 10)
    or (candidates.confidence = 'low') <> (candidates.n_traces between 10 and 29)
    or (candidates.confidence = 'medium') <> (candidates.n_traces between 30 and 99)
    or candidates.window_start <> candidates.as_of - {{ days('candidates.window_days') }}
