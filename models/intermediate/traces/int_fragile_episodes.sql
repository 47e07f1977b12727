{#- Fragile episodes (scoring.md §5): those that the agent recovered from, and the one that is still open. An episode
    that ended after an as-of is open at it. Grain: episode. Key: fragility_event_id, of the recovery, or of the detection
    of an open episode. -#}
with open_episodes as (

    select
        latest.fragility_event_id,
        agents.agent_id_hash,
        latest.event,
        latest.failure_mode,
        latest.detected_at
    from {{ ref('int_agents') }} as agents
    cross join lateral (
        select
            events.fragility_event_id,
            events.event,
            events.failure_mode,
            events.detected_at
        from {{ ref('int_fragility_events') }} as events
        where events.agent_id_hash = agents.agent_id_hash
        order by {{ newest_first('fragility_event_id', 'events') }}
        limit 1
    ) as latest

)

select
    fragility_event_id,
    agent_id_hash,
    failure_mode,
    detected_at,
    traced_at as recovered_at
from {{ ref('int_fragility_events') }}
where event = 'recovery'

union all

select
    fragility_event_id,
    agent_id_hash,
    failure_mode,
    detected_at,
    null::timestamptz as recovered_at
from open_episodes
where event = 'detection'
