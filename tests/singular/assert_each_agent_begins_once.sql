-- Every agent with a period has exactly one first trace in int_identity_events: without it the agent would have no
-- scores, with two it would have each twice.
with agents as (

    select distinct agent_id_hash
    from {{ ref('int_agent_periods') }}
    where {{ in_increment(ref('int_agent_periods')) }}

)

select
    agents.agent_id_hash,
    count(first_traces.agent_id_hash) as n_first_traces
from agents
left join {{ ref('int_identity_events') }} as first_traces
    on
        agents.agent_id_hash = first_traces.agent_id_hash
        and first_traces.is_first_trace
        and first_traces.traced_at < (select run.as_of from {{ ref('int_scoring_run') }} as run)
group by agents.agent_id_hash
having count(first_traces.agent_id_hash) <> 1
