{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- What counts at an as-of and is no sum over periods: deferrals (scoring.md §6), by their range and by whether their
    outcome was known at T; the fragile episode that is open at T; and from how many failure modes the agent recovered in
    [T - W, T) (scoring.md §5), as of n recoveries n - n_modes + n_modes_open were followed by another episode of their
    mode: all but the last of each mode, and that one too where the open episode is of its mode. For signs (certainty.md
    §5) the deferrals that were raised, escalated and left open, and the modes of the window before.
    Each counts at the as-ofs of a stretch [first_as_of, end_as_of): it is added at the first and taken away at the
    second, so a row's count is the sum of what stands before it. A stretch that ended by the cutoff counts nowhere. Grain and key: agent, as-of, window. Nothing is null. -#}
{%- set steady_days = scoring_parameter('steady_days') %}
{%- set days_to_judge = constant('days_to_judge') %}
{%- set of_deferrals = ['window', 'steady', 'before'] %}
{%- set counted = ['open', 'modes', 'modes_open', 'raised', 'escalated', 'due', 'due_open', 'due_before', 'open_before',
                   'recoveries_before', 'modes_before'] %}
with scored_windows as (

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

),

-- Ranges [T - days_from, T - days_until) of deferrals by when they were raised. At T count those judged (judged),
-- all (raised), or those nobody had judged known_later days before T (open). steady is what capacity_score_steady
-- averages over, before what the alert episode compares with; of due ones an authority has had days_to_judge.
deferral_ranges as {{ inlined() }}(

    select
        windows.window_days,
        ranges.what,
        ranges.counts,
        ranges.days_from,
        ranges.days_until,
        ranges.known_later
    from {{ ref('scoring_windows') }} as windows
    cross join lateral (
        values
        ('window', 'judged', windows.window_days, 0, null),
        ('escalated', 'judged', windows.window_days, 0, null),
        ('steady', 'judged', greatest(windows.window_days, {{ steady_days }}), 0, null),
        ('before', 'judged', windows.window_days + {{ steady_days }}, windows.window_days, null),
        ('raised', 'raised', windows.window_days, 0, null),
        ('due', 'raised', windows.window_days + {{ days_to_judge }}, {{ days_to_judge }}, null),
        ('due_open', 'open', windows.window_days + {{ days_to_judge }}, {{ days_to_judge }}, 0),
        ('due_before', 'raised', windows.window_days + windows.baseline_days + {{ days_to_judge }},
         windows.window_days + {{ days_to_judge }}, null),
        ('open_before', 'open', windows.window_days + windows.baseline_days + {{ days_to_judge }},
         windows.window_days + {{ days_to_judge }}, windows.window_days)
    ) as ranges (what, counts, days_from, days_until, known_later)

),

deferrals as {{ inlined() }}(

    select
        agents.agent_id_hash,
        {{ period_start('deferrals.created_at') }} as created_in,
        case
            when deferrals.is_judged and deferrals.judged_from < {{ run_as_of() }}
                then {{ period_start('deferrals.judged_from') }}
        end as judged_in,
        deferrals.status = 'ESCALATED' as is_escalated,
        count(*) as n,
        sum(deferrals.deferral_value) as value
    from {{ ref('int_deferral_verdicts') }} as deferrals
    inner join {{ ref('int_agents') }} as agents on deferrals.agent_id_hash = agents.agent_id_hash
    where
        deferrals.is_known_status
        and deferrals.created_at >= least(
            {{ windows_from() }} - {{ days(steady_days) }}, {{ read_from() }} - {{ days(days_to_judge) }}
        )
        and isfinite(deferrals.created_at)
    group by 1, 2, 3, 4

),

recoveries as {{ inlined() }}(

    select
        agent_id_hash,
        period_start,
        detected_at,
        failure_mode
    from {{ ref('int_fragility_events') }}
    where
        event = 'recovery'
        and traced_at >= {{ windows_from() }} - {{ length_in_run('longest_window') }}
        and traced_at < {{ run_as_of() }}

),

last_events as (

    select
        agents.agent_id_hash,
        latest.event,
        latest.detected_at,
        latest.failure_mode
    from (select distinct agent_id_hash from {{ ref('int_agent_spine') }}) as agents
    cross join lateral (
        select
            events.event,
            events.detected_at,
            events.failure_mode
        from {{ ref('int_fragility_events') }} as events
        where
            events.agent_id_hash = agents.agent_id_hash
            and events.traced_at < {{ run_as_of() }}
        order by {{ newest_first('fragility_event_id', 'events') }}
        limit 1
    ) as latest

),

-- Detected before an as-of, not recovered before it: one at most at each.
open_stretches as {{ inlined() }}(

    select
        recoveries.agent_id_hash,
        windows.window_days,
        recoveries.failure_mode,
        recoveries.detected_at,
        {{ period_start('recoveries.detected_at') }} + {{ period_length() }} as first_as_of,
        recoveries.period_start + {{ period_length() }} as end_as_of
    from recoveries
    cross join {{ ref('scoring_windows') }} as windows

    union all

    select
        last_events.agent_id_hash,
        windows.window_days,
        last_events.failure_mode,
        last_events.detected_at,
        {{ period_start('last_events.detected_at') }} + {{ period_length() }} as first_as_of,
        {{ run_as_of() }} + {{ period_length() }} as end_as_of
    from last_events
    cross join {{ ref('scoring_windows') }} as windows
    where last_events.event = 'detection'

),

-- Of each failure mode the periods with a recovery, each up to the next one.
recovered_periods as (

    select
        agent_id_hash,
        failure_mode,
        period_start,
        count(*) as n,
        lead(period_start) over (partition by agent_id_hash, failure_mode order by period_start) as next_period_start
    from recoveries
    group by
        agent_id_hash,
        failure_mode,
        period_start

),

mode_stretches as {{ inlined() }}(

    select
        recovered.agent_id_hash,
        recovered.failure_mode,
        windows.window_days,
        recovered.n,
        recovered.period_start + {{ period_length() }} as first_as_of,
        least(recovered.period_start + {{ days('windows.window_days') }}, recovered.next_period_start)
        + {{ period_length() }} as end_as_of
    from recovered_periods as recovered
    cross join {{ ref('scoring_windows') }} as windows

),

stretches as (

    select
        deferrals.agent_id_hash,
        ranges.window_days,
        ranges.what,
        greatest(
            deferrals.created_in + {{ days('ranges.days_until') }},
            case when ranges.counts = 'judged' then deferrals.judged_in end
        ) + {{ period_length() }} as first_as_of,
        least(
            deferrals.created_in + {{ days('ranges.days_from') }},
            case when ranges.counts = 'open' then deferrals.judged_in + {{ days('ranges.known_later') }} end
        ) + {{ period_length() }} as end_as_of,
        deferrals.n,
        deferrals.value
    from deferrals
    cross join deferral_ranges as ranges
    where
        (ranges.counts <> 'judged' or deferrals.judged_in is not null)
        and (ranges.what <> 'escalated' or deferrals.is_escalated)

    union all

    select
        agent_id_hash,
        window_days,
        'open' as what,
        first_as_of,
        end_as_of,
        1 as n,
        {{ epoch('detected_at') }} as value
    from open_stretches

    union all

    -- Constant VALUES: with times in them Citus would bring all rows to the coordinator.
    select
        modes.agent_id_hash,
        modes.window_days,
        counted.what,
        modes.first_as_of + counted.n_windows_later * {{ days('modes.window_days') }} as first_as_of,
        case
            when counted.what = 'recoveries_before' then modes.first_as_of + {{ days('2 * modes.window_days') }}
            else modes.end_as_of + counted.n_windows_later * {{ days('modes.window_days') }}
        end as end_as_of,
        case when counted.what = 'recoveries_before' then modes.n else 1 end as n,
        0 as value
    from mode_stretches as modes
    cross join (
        values
        ('modes', 0),
        ('modes_before', 1),
        ('recoveries_before', 1)
    ) as counted (what, n_windows_later)

    union all

    select
        modes.agent_id_hash,
        modes.window_days,
        'modes_open' as what,
        greatest(modes.first_as_of, episodes.first_as_of) as first_as_of,
        least(modes.end_as_of, episodes.end_as_of) as end_as_of,
        1 as n,
        0 as value
    from mode_stretches as modes
    inner join open_stretches as episodes
        on
            modes.agent_id_hash = episodes.agent_id_hash
            and modes.window_days = episodes.window_days
            and modes.failure_mode = episodes.failure_mode
            and modes.first_as_of < episodes.end_as_of
            and modes.end_as_of > episodes.first_as_of

),

-- What began by the cutoff counts from the first scored as-of on; what ends after the last one needs no end.
moves as (

    select
        stretches.agent_id_hash,
        stretches.window_days,
        stretches.what,
        greatest(ends.as_of, {{ cutoff() }} + {{ period_length() }}) as as_of,
        sum(ends.side * stretches.n) as n,
        sum(ends.side * stretches.value) as value,
        false as is_row
    from stretches
    cross join lateral (
        values
        (stretches.first_as_of, 1),
        (stretches.end_as_of, -1)
    ) as ends (as_of, side)
    where
        stretches.first_as_of < stretches.end_as_of
        and stretches.end_as_of > {{ cutoff() }}
        and ends.as_of <= {{ run_as_of() }}
    group by 1, 2, 3, 4

    union all

    select
        agent_id_hash,
        window_days,
        null as what,
        as_of,
        0 as n,
        0 as value,
        true as is_row
    from scored_windows

),

counted as (

    select
        agent_id_hash,
        as_of,
        window_days,
        is_row,
        {% for what in of_deferrals %}
        coalesce(sum(n) filter (where what = '{{ what }}') over so_far, 0) as n_{{ what }},
        coalesce(sum(value) filter (where what = '{{ what }}') over so_far, 0) as value_{{ what }},
        {% endfor %}
        {% for what in counted %}
        coalesce(sum(n) filter (where what = '{{ what }}') over so_far, 0) as n_{{ what }},
        {% endfor %}
        coalesce(sum(value) filter (where what = 'open') over so_far, 0) as detected_epoch
    from moves
    window so_far as (partition by agent_id_hash, window_days order by as_of)

)

select
    agent_id_hash,
    as_of,
    window_days,
    {% for what, name in [('window', 'judged'), ('steady', 'steady'), ('before', 'earlier')] %}
    n_{{ what }}::integer as n_{{ name }}_deferrals,
    value_{{ what }} as value_of_{{ name }}_deferrals,
    {% endfor %}
    n_open::integer as n_open_episodes,
    ((n_open * {{ epoch('as_of') }} - detected_epoch) * 1000000)::bigint as open_microseconds,
    n_modes::integer as n_modes,
    n_modes_open::integer as n_modes_open,
    {% for what, name in [
        ('raised', 'raised_deferrals'), ('escalated', 'escalated_deferrals'), ('due', 'due_deferrals'),
        ('due_open', 'open_deferrals'), ('due_before', 'earlier_due_deferrals'),
        ('open_before', 'earlier_open_deferrals'), ('recoveries_before', 'earlier_recoveries'),
        ('modes_before', 'earlier_modes'),
    ] %}
    n_{{ what }}::integer as n_{{ name }}{% if not loop.last %},{% endif %}
    {% endfor %}
from counted
where is_row
