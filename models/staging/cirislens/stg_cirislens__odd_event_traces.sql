{{
  config(
    materialized='replace_range',
    meta={'event_range': 'last_event_at'},
    indexes=[{'columns': ['last_event_at']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Traces without ACTION_RESULT, and traces with several: their time is not that of one event. They are few and are
    found once per run, in the lookback; otherwise stg_cirislens__event_traces would look at all events of a trace at
    each read. A trace that is here without being odd is put together all the same. Grain: trace (agent and trace_id),
    as often as later events were found. Only the agent is nullable. Empty where the source holds whole traces. -#}
{%- if source_if_there('trace_events', source_shape()) is none -%}
select
    null::text as agent_id_hash,
    null::text as trace_id,
    null::timestamptz as last_event_at
where false
{%- else -%}
{%- set events_from = events_from() -%}
with recent as (

    select
        agent_id_hash,
        trace_id,
        count(*) filter (where event_type = {{ outcome_event() }}) as n_outcomes,
        max(ts) as last_event_at
    from {{ source('cirislens', 'trace_events') }} as part
    where
        {{ is_part_of_trace('part') }}
        {% if events_from is not none %}
        and ts >= {{ events_from }}
        {% endif %}
    group by
        agent_id_hash,
        trace_id

)

select
    agent_id_hash,
    trace_id,
    last_event_at
from recent
where
    n_outcomes <> 1
    {% if events_from is not none %}
    or exists (
        select 1
        from {{ source('cirislens', 'trace_events') }} as earlier
        where
            earlier.trace_id = recent.trace_id
            and earlier.agent_id_hash is not distinct from recent.agent_id_hash
            and earlier.event_type = {{ outcome_event() }}
            and earlier.ts < {{ events_from }}
    )
    {% endif %}
{%- endif %}
