{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    indexes=[{'columns': ['agent_id_hash', 'traced_at']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Grain: one row per detection of a fragile episode and per recovery (scoring.md §5). A recovery carries its
    detection's time and failure mode, so no row changes when an episode ends. -#}
with events as (

    select
        trace_verdict_id,
        agent_id_hash,
        traced_at,
        period_start,
        audit_sequence_number,
        trace_id,
        is_fragility_detected,
        coalesce(idma_phase, '{{ constant('unknown_mode') }}') as failure_mode
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and (is_fragility_detected or is_fragility_recovered)

),

-- Detections and recoveries alternate, so the event before a recovery is its detection.
paired as (

    select
        events.*,
        lag(events.traced_at) over agent_order as previous_event_at,
        lag(events.failure_mode) over agent_order as previous_failure_mode
    from events
    window agent_order as (
        partition by events.agent_id_hash
        order by {{ oldest_first('trace_verdict_id', 'events') }}
    )

),

{% if is_incremental() %}
-- Episodes open where the increment begins.
carried_in as (

    select
        agents.agent_id_hash,
        left_behind.detected_at,
        left_behind.failure_mode
    from {{ agents_in('events') }} as agents
    cross join lateral (
        select
            earlier.detected_at,
            earlier.failure_mode
        from {{ this }} as earlier
        where
            earlier.agent_id_hash = agents.agent_id_hash
            and earlier.traced_at < {{ rejudged_from() }}
        order by {{ newest_first('fragility_event_id', 'earlier') }}
        limit 1
    ) as left_behind

)
{% else %}
carried_in as (

    select
        null::text as agent_id_hash,
        null::timestamptz as detected_at,
        null::text as failure_mode
    where false

)
{% endif %}

select
    paired.trace_verdict_id as fragility_event_id,
    paired.agent_id_hash,
    paired.traced_at,
    paired.period_start,
    paired.audit_sequence_number,
    paired.trace_id,
    case when paired.is_fragility_detected then 'detection' else 'recovery' end as event,
    case
        when paired.is_fragility_detected then paired.traced_at
        else coalesce(paired.previous_event_at, carried_in.detected_at)
    end as detected_at,
    case
        when paired.is_fragility_detected then paired.failure_mode
        else coalesce(paired.previous_failure_mode, carried_in.failure_mode)
    end as failure_mode
from paired
left join carried_in on paired.agent_id_hash = carried_in.agent_id_hash
