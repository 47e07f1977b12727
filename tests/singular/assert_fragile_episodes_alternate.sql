{% if is_testable() %}
-- Detections and recoveries of an agent alternate, and each recovery repeats the time and the failure mode of the
-- detection before it, because MTTR and rho_regression read an episode from its recovery alone.
with events as not materialized (

    select
        agent_id_hash,
        traced_at,
        audit_sequence_number,
        trace_id,
        agent_event_id,
        kind,
        detected_at,
        failure_mode
    from {{ ref('int_agent_events') }}
    where
        {{ in_increment(ref('int_agent_events')) }}
        and kind in ('detection', 'recovery')

),

-- Last event of each agent before its first event in the run.
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
            known.agent_event_id,
            known.kind,
            known.detected_at,
            known.failure_mode
        from {{ ref('int_agent_events') }} as known
        where
            known.agent_id_hash = agents.agent_id_hash
            and known.traced_at < agents.first_traced_at
            and known.kind in ('detection', 'recovery')
        order by {{ newest_first('agent_event_id', 'known') }}
        limit 1
    ) as earlier

),

in_order as (

    select
        *,
        lag(kind) over agent_order as previous_kind,
        lag(traced_at) over agent_order as previous_traced_at,
        lag(failure_mode) over agent_order as previous_failure_mode,
        is_new and kind = 'recovery' as is_new_recovery
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
        order by {{ oldest_first('agent_event_id') }}
    )

)

select
    agent_id_hash,
    traced_at,
    kind,
    previous_kind
from in_order
where
    (is_new and kind is not distinct from previous_kind)
    or (is_new and kind = 'detection' and detected_at <> traced_at)
    or (is_new_recovery and previous_kind is null)
    or (is_new_recovery and detected_at is distinct from previous_traced_at)
    or (is_new_recovery and failure_mode is distinct from previous_failure_mode)
{% else %}
{{ untested() }}
{% endif %}
