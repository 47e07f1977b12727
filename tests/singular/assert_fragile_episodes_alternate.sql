-- Detections and recoveries of an agent take turns, and each recovery carries the time and the failure mode of the
-- detection before it: MTTR and rho_regression read episodes off single rows.
with events as not materialized (

    select
        agent_id_hash,
        traced_at,
        audit_sequence_number,
        trace_id,
        fragility_event_id,
        event,
        detected_at,
        failure_mode
    from {{ ref('int_fragility_events') }}
    where {{ in_increment(ref('int_fragility_events')) }}

),

-- The event before the run's first one of each agent.
before_events as (

    select earlier.*
    from (
        select
            agent_id_hash,
            min(traced_at) as first_traced_at
        from events
        group by agent_id_hash
    ) as agents
    cross join lateral (
        select
            known.agent_id_hash,
            known.traced_at,
            known.audit_sequence_number,
            known.trace_id,
            known.fragility_event_id,
            known.event,
            known.detected_at,
            known.failure_mode
        from {{ ref('int_fragility_events') }} as known
        where
            known.agent_id_hash = agents.agent_id_hash
            and known.traced_at < agents.first_traced_at
        order by {{ newest_first('fragility_event_id', 'known') }}
        limit 1
    ) as earlier

),

in_order as (

    select
        *,
        lag(event) over agent_order as previous_event,
        lag(traced_at) over agent_order as previous_traced_at,
        lag(failure_mode) over agent_order as previous_failure_mode,
        is_new and event = 'recovery' as is_new_recovery
    from (
        select
            *,
            true as is_new
        from events

        union all

        select
            *,
            false as is_new
        from before_events
    ) as all_events
    window agent_order as (
        partition by agent_id_hash
        order by {{ oldest_first('fragility_event_id') }}
    )

)

select
    agent_id_hash,
    traced_at,
    event,
    previous_event
from in_order
where
    (is_new and event is not distinct from previous_event)
    or (is_new and event = 'detection' and detected_at <> traced_at)
    or (is_new_recovery and previous_event is null)
    or (is_new_recovery and detected_at is distinct from previous_traced_at)
    or (is_new_recovery and failure_mode is distinct from previous_failure_mode)
