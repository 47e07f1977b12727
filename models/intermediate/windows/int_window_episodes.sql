{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- What sums over periods cannot say about fragile episodes (scoring.md §5): the episode open at T, and the failure
    modes of the recoveries in [T - W, T). Of n recoveries, n - n_modes + n_modes_open were followed by another episode
    of their mode: all but the last of each mode, and that one too if the open episode is of its mode. Grain and key:
    agent, as-of, window with an open episode or a recovery. open_detected_at is null where none is open. -#}
with scored_windows as (

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

),

-- The as-ofs of the run per agent, by span: an episode may stay open through years of silence.
spans as {{ inlined() }}(

    select
        agent_id_hash,
        min(as_of) as first_as_of,
        max(as_of) as last_as_of
    from {{ ref('int_agent_spine') }}
    where as_of > {{ cutoff() }}
    group by
        agent_id_hash,
        span_start

),

recoveries as {{ inlined() }}(

    select
        agent_id_hash,
        traced_at,
        period_start,
        detected_at,
        failure_mode
    from {{ ref('int_fragility_events') }}
    where
        event = 'recovery'
        and traced_at >= {{ windows_from() }}
        and traced_at < {{ as_of() }}

),

last_events as (

    select
        agents.agent_id_hash,
        latest.event,
        latest.detected_at,
        latest.failure_mode
    from (
        select distinct agent_id_hash
        from {{ ref('int_agent_spine') if is_distributed() else 'spans' }}
    ) as agents
    cross join lateral (
        select
            events.event,
            events.detected_at,
            events.failure_mode
        from {{ ref('int_fragility_events') }} as events
        where
            events.agent_id_hash = agents.agent_id_hash
            and events.traced_at < {{ as_of() }}
        order by {{ newest_first('fragility_event_id', 'events') }}
        limit 1
    ) as latest

),

-- Episodes open at some as-of of the run.
episodes as (

    select
        agent_id_hash,
        detected_at,
        {{ period_start('traced_at') }} as last_open_as_of,
        failure_mode
    from recoveries
    where traced_at >= {{ cutoff() }}

    union all

    select
        agent_id_hash,
        detected_at,
        {{ as_of() }} as last_open_as_of,
        failure_mode
    from last_events
    where event = 'detection'

),

open_stretches as (

    select
        episodes.agent_id_hash,
        episodes.detected_at,
        episodes.failure_mode,
        greatest({{ period_start('episodes.detected_at') }} + {{ period_length() }}, spans.first_as_of) as first_as_of,
        least(episodes.last_open_as_of, spans.last_as_of) as last_as_of
    from episodes
    inner join spans
        on
            episodes.agent_id_hash = spans.agent_id_hash
            and episodes.last_open_as_of >= spans.first_as_of
            and episodes.detected_at < spans.last_as_of

),

-- At most one per agent and as-of: detected before it, not recovered before it.
open_episodes as {{ inlined() }}(

    select
        stretches.agent_id_hash,
        {{ nth_period('stretches.first_as_of', 'nth.n') }} as as_of,
        stretches.detected_at,
        stretches.failure_mode
    from open_stretches as stretches
    cross join lateral {{ each_period('stretches.first_as_of', 'stretches.last_as_of') }} as nth (n)

),

-- For each failure mode, the periods with a recovery, each up to the next one.
recovered_periods as (

    select distinct
        agent_id_hash,
        failure_mode,
        period_start
    from recoveries

),

mode_stretches as (

    select
        agent_id_hash,
        failure_mode,
        period_start,
        lead(period_start) over (
            partition by agent_id_hash, failure_mode
            order by period_start
        ) as next_period_start
    from recovered_periods

),

-- Where the last recovery of a mode lies in the window.
recovered_stretches as (

    select
        stretches.agent_id_hash,
        stretches.failure_mode,
        windows.window_days,
        greatest(stretches.period_start, {{ cutoff() }}) + {{ period_length() }} as first_as_of,
        least(
            stretches.period_start + {{ days('windows.window_days') }}, stretches.next_period_start, {{ as_of() }}
        ) as last_as_of
    from mode_stretches as stretches
    cross join {{ ref('scoring_windows') }} as windows

),

recovered_at as (

    select
        stretches.agent_id_hash,
        stretches.failure_mode,
        stretches.window_days,
        {{ nth_period('stretches.first_as_of', 'nth.n') }} as as_of
    from recovered_stretches as stretches
    cross join lateral {{ each_period('stretches.first_as_of', 'stretches.last_as_of') }} as nth (n)

),

recovered_modes as (

    select
        recovered_at.agent_id_hash,
        recovered_at.as_of,
        recovered_at.window_days,
        count(*)::integer as n_modes,
        (count(*) filter (where recovered_at.failure_mode = open_episodes.failure_mode))::integer as n_modes_open
    from recovered_at
    left join open_episodes using (agent_id_hash, as_of)
    group by
        recovered_at.agent_id_hash,
        recovered_at.as_of,
        recovered_at.window_days

)

select
    scored_windows.agent_id_hash,
    scored_windows.as_of,
    scored_windows.window_days,
    open_episodes.detected_at as open_detected_at,
    coalesce(recovered_modes.n_modes, 0) as n_modes,
    coalesce(recovered_modes.n_modes_open, 0) as n_modes_open
from scored_windows
left join open_episodes using (agent_id_hash, as_of)
left join recovered_modes using (agent_id_hash, as_of, window_days)
where
    open_episodes.detected_at is not null
    or recovered_modes.n_modes > 0
