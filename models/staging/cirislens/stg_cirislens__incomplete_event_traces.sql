{{
  config(
    materialized='replace_range',
    meta={'range': 'last_event_at'},
    indexes=[{'columns': ['last_event_at']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Incomplete event traces. Such a trace has no ACTION_RESULT event or several, so its time does not follow from a
    single event. The table also lists complete traces (is_complete) that were final when they got another event, or
    when another agent used their trace_id. Few traces are listed. Each run searches for them once, in the events of the
    restatement window and in older events that arrived since the last run. Without this table
    stg_cirislens__event_traces would read all events of a trace at each use. Grain: trace (agent and trace_id), once
    for each run that found it. Only the agent may be null. Empty if the source holds whole traces. -#}
{%- set events_from = events_from() -%}
{#- The newest event that the run before the last one found. The last run is not used, because it may have missed events
    that were being written at that time. -#}
{%- set last_run = relation_as_left('int_scoring_run') if events_from is not none else none -%}
{%- set known_until = run_query(
    "select coalesce(to_jsonb(run) ->> 'earlier_event_id', to_jsonb(run) ->> 'newest_event_id') from " ~ last_run ~ " as run"
  ).columns[0].values() | first | default(none) if last_run is not none else none -%}
{%- set checks = relation_as_left('int_trace_checks') if events_from is not none else none -%}
with recent as (

    select
        agent_id_hash,
        trace_id,
        count(*) filter (where event_type = {{ outcome_event() }}) as n_outcomes,
        max(ts) as last_event_at
    from {{ ref('stg_cirislens__trace_events') }}
    {% if events_from is not none %}
    where ts >= {{ events_from }}
    {% endif %}
    group by
        agent_id_hash,
        trace_id

),

{% if known_until is not none %}
arrived_late as (

    select distinct
        agent_id_hash,
        trace_id
    from {{ ref('stg_cirislens__trace_events') }}
    where
        event_id > {{ known_until }}
        and ts < {{ events_from }}

),

{% endif %}
found as (

    select
        agent_id_hash,
        trace_id,
        last_event_at,
        n_outcomes = 1
        {% if events_from is not none %}
        and not exists (
            select 1
            from {{ ref('stg_cirislens__trace_events') }} as earlier
            where
                earlier.trace_id = recent.trace_id
                and earlier.agent_id_hash is not distinct from recent.agent_id_hash
                and earlier.event_type = {{ outcome_event() }}
                and earlier.ts < {{ events_from }}
        )
        {% endif %} as is_complete
    from recent
    {% if known_until is not none %}

    union all

    select
        arrived_late.agent_id_hash,
        arrived_late.trace_id,
        whole.last_event_at,
        whole.n_outcomes = 1 as is_complete
    from arrived_late
    cross join lateral (
        select
            count(*) filter (where part.event_type = {{ outcome_event() }}) as n_outcomes,
            max(part.ts) as last_event_at
        from {{ ref('stg_cirislens__trace_events') }} as part
        where
            part.trace_id = arrived_late.trace_id
            and part.agent_id_hash is not distinct from arrived_late.agent_id_hash
    ) as whole
    {% endif %}

)

select
    agent_id_hash,
    trace_id,
    last_event_at,
    is_complete
from found
where
    not is_complete
    {% if checks is not none %}
    -- This is a scalar subquery, because PostgreSQL would hash all older rows for `exists`.
    or (
        select true
        from {{ checks }} as final
        where
            final.delivery_hash = {{ delivery_hash('found.trace_id', 'null') }}
            and coalesce(final.trace_id, found.trace_id) = found.trace_id
            and final.agent_id_hash <> ''
            and final.traced_at < {{ events_from }}
        limit 1
    )
    {% endif %}
