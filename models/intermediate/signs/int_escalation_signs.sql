{#- The sign deferrals_escalated (certainty.md §5): of the window's deferrals, the share that had been ESCALATED by T,
    against the fleet's median. The status counts as right and costs one word.
    Grain: agent, as-of and window where the sign is raised. Nothing is null. -#}
with windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

),

deferrals as (

    select
        agent_id_hash,
        created_at,
        case when status = 'ESCALATED' then judged_from end as escalated_at
    from {{ ref('int_deferral_verdicts') }}
    where
        agent_id_hash is not null
        and is_known_status
        and created_at >= {{ windows_from() }}
        and created_at < {{ as_of() }}

),

counted as (

    select
        windows.agent_id_hash,
        windows.as_of,
        windows.window_days,
        count(*) as n_deferrals,
        count(*) filter (where deferrals.escalated_at < windows.as_of) as n_escalated
    from windows
    inner join deferrals
        on
            windows.agent_id_hash = deferrals.agent_id_hash
            and windows.window_start <= deferrals.created_at
            and windows.as_of > deferrals.created_at
    group by
        windows.agent_id_hash,
        windows.as_of,
        windows.window_days

),

fleet_medians as (

    select
        as_of,
        window_days,
        percentile_cont(0.5) within group (order by n_escalated / n_deferrals::double precision) as median_share
    from counted
    group by
        as_of,
        window_days

),

judged as (

    select
        counted.agent_id_hash,
        counted.as_of,
        counted.window_days,
        counted.n_deferrals,
        counted.n_escalated,
        counted.n_escalated / counted.n_deferrals::double precision as found_share,
        fleet_medians.median_share as other_share,
        {{ excess_z(
            'counted.n_escalated', 'counted.n_deferrals',
            'fleet_medians.median_share * ' ~ median_weight() ~ ' * counted.n_deferrals',
            '(' ~ median_weight() ~ ' * counted.n_deferrals)'
        ) }} as z
    from counted
    inner join fleet_medians using (as_of, window_days)

)

select
    agent_id_hash,
    as_of,
    window_days,
    'deferrals_escalated' as sign,
    found_share as value,
    other_share as comparison_value,
    'fleet_median' as compared_with,
    z,
    format(
        '%s of %s deferrals were escalated (%s); the fleet''s median: %s.',
        n_escalated, n_deferrals, {{ percent('found_share') }}, {{ percent('other_share') }}
    ) as message
from judged
where
    {{ is_sign_raised(
        ['deferrals_escalated'], "'deferrals_escalated'", 'n_escalated', 'found_share - other_share', 'z'
    ) }}
