{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    indexes=[{'columns': ['agent_id_hash', 'traced_at']}, {'columns': ['kind', 'traced_at']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Events in the history of an agent that all later as-ofs use: its first trace, its first trace of a run kind that is
    not scored, its names, its keys, and detections and recoveries of its fragile episodes (scoring.md §5). Grain and
    key: kind, time and agent_event_id. Columns are null if the trace did not send a value or the kind does not use
    them. -#}
{#- Table of agents as the previous run left it. -#}
{%- set known_agents = relation_as_left('int_agents') if is_incremental() -%}
with new_events as (

    select
        kinds.kind,
        checks.trace_check_id as agent_event_id,
        checks.agent_id_hash,
        checks.traced_at,
        checks.audit_sequence_number,
        checks.trace_id,
        checks.agent_name,
        coalesce(checks.idma_phase, '{{ constant('unknown_mode') }}') as failure_mode
    from {{ ref('int_trace_checks') }} as checks
    cross join lateral (
        values
        ('first_trace', checks.is_first_trace),
        ('name', checks.is_first_name or checks.is_identity_change),
        ('detection', checks.is_fragility_detected),
        ('recovery', checks.is_fragility_recovered)
    ) as kinds (kind, is_event)
    where
        {{ in_checked_range('checks.traced_at') }}
        -- Most traces are not events. PostgreSQL checks this condition while it reads the table.
        and (
            checks.is_first_trace or checks.is_first_name or checks.is_identity_change
            or checks.is_fragility_detected or checks.is_fragility_recovered
        )
        and kinds.is_event

),

-- Adds each agent's last detection or recovery before the run, because the first recovery of the run may end an episode
-- that was detected before the run.
events as (

    select * from new_events
    {% if known_agents %}

    union all

    select previous.*
    from {{ known_agents }} as agents
    cross join lateral (
        select
            earlier.kind,
            earlier.agent_event_id,
            earlier.agent_id_hash,
            earlier.traced_at,
            earlier.audit_sequence_number,
            earlier.trace_id,
            earlier.agent_name,
            earlier.failure_mode
        from {{ this }} as earlier
        where
            earlier.agent_id_hash = agents.agent_id_hash
            and earlier.kind in ('detection', 'recovery')
            and earlier.traced_at < {{ rechecked_from() }}
        order by {{ newest_first('agent_event_id', 'earlier') }}
        limit 1
    ) as previous
    {% endif %}

),

-- Detections and recoveries alternate, so the event before a recovery is its detection. The recovery repeats the time
-- and failure mode of the detection, so that no row changes when an episode ends.
paired as (

    select
        *,
        lag(traced_at) over agent_order as previous_traced_at,
        lag(failure_mode) over agent_order as previous_failure_mode
    from events
    window agent_order as (
        partition by {{ of_agent() }}, kind in ('detection', 'recovery')
        order by {{ oldest_first() }}
    )

),

-- First use of each signing key by an agent, and its first trace of a run kind that is not scored. The chain may begin
-- with the audit number of that trace.
firsts as (

    select
        case when is_counted then 'key' else 'first_unscored' end as kind,
        agent_id_hash,
        min(traced_at) as traced_at,
        case when is_counted then key_hash end as key_hash
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and (
            (is_counted and key_hash is not null)
            or (not is_counted and not is_duplicate and agent_id_hash <> '')
        )
    group by
        kind,
        agent_id_hash,
        case when is_counted then key_hash end

)

select
    kind,
    agent_event_id,
    agent_id_hash,
    traced_at,
    audit_sequence_number,
    trace_id,
    agent_name,
    case kind when 'detection' then traced_at when 'recovery' then previous_traced_at end as detected_at,
    case kind when 'detection' then failure_mode when 'recovery' then previous_failure_mode end as failure_mode,
    null::bigint as key_hash
from paired
where {{ in_checked_range('traced_at') }}

union all

select
    kind,
    md5(concat_ws('|', agent_id_hash, key_hash))::uuid as agent_event_id,
    agent_id_hash,
    traced_at,
    null::bigint as audit_sequence_number,
    null::text as trace_id,
    null::text as agent_name,
    null::timestamptz as detected_at,
    null::text as failure_mode,
    key_hash
from firsts
{% if is_incremental() %}
where not exists (
    select 1
    from {{ this }} as earlier
    where
        earlier.agent_id_hash = firsts.agent_id_hash
        and earlier.kind = firsts.kind
        and (firsts.key_hash is null or earlier.key_hash = firsts.key_hash)
        and earlier.traced_at < {{ rechecked_from() }}
)
{% endif %}
