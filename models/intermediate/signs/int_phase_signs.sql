{#- The sign phase_churn (certainty.md §5): distinct failure modes per fragile episode, over the episodes that
    ended in the window, where nearly each has a mode of its own; against the agent's window before this one, or, where
    that has no episode, against the fleet's median.
    Grain: agent, as-of and window where the sign is raised. Nothing is null. -#}
with {% for windows, is_read in [
    ('windows', in_scored_range('sums.as_of') ~ ' and ' ~ in_scored_range('episodes.as_of')),
    ('earlier_windows', 'sums.as_of > ' ~ windows_from() ~ ' and sums.as_of <= ' ~ as_of()
        ~ ' and episodes.as_of > ' ~ windows_from()),
] %}
{{ windows }} as (

    select
        sums.agent_id_hash,
        sums.as_of,
        sums.window_days,
        sums.n_recoveries,
        episodes.n_modes,
        episodes.n_modes / sums.n_recoveries::double precision as modes_per_episode
    from {{ ref('int_window_sums') }} as sums
    inner join {{ ref('int_window_events') }} as episodes using (agent_id_hash, as_of, window_days)
    where
        sums.n_recoveries > 0
        and {{ is_read }}

),

{% endfor %}
churning as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_recoveries,
        n_modes,
        modes_per_episode
    from windows
    where
        n_modes >= {{ sign_thresholds()['phase_churn']['found'] }}
        and modes_per_episode >= {{ sign_thresholds()['phase_churn']['share'] }}

),

fleet_medians as (

    select
        as_of,
        window_days,
        percentile_cont(0.5) within group (order by modes_per_episode) as modes_per_episode
    from windows
    where (as_of, window_days) in (
        select
            churning.as_of,
            churning.window_days
        from churning
    )
    group by
        as_of,
        window_days

),

compared as (

    select
        churning.agent_id_hash,
        churning.as_of,
        churning.window_days,
        churning.n_recoveries,
        churning.n_modes,
        churning.modes_per_episode,
        case when earlier.modes_per_episode is not null then 'own_baseline' else 'fleet_median' end as compared_with,
        coalesce(earlier.n_recoveries, {{ median_weight() }} * churning.n_recoveries) as other_recoveries,
        coalesce(earlier.modes_per_episode, fleet_medians.modes_per_episode) as other_share
    from churning
    inner join fleet_medians using (as_of, window_days)
    left join earlier_windows as earlier
        on
            churning.agent_id_hash = earlier.agent_id_hash
            and churning.window_days = earlier.window_days
            and churning.as_of - {{ days('churning.window_days') }} = earlier.as_of

)

select
    agent_id_hash,
    as_of,
    window_days,
    'phase_churn' as sign,
    modes_per_episode as value,
    other_share as comparison_value,
    compared_with,
    {{ excess_z('n_modes', 'n_recoveries', 'other_share * other_recoveries', 'other_recoveries') }} as z,
    format(
        '%s different failure modes in %s fragile episodes (%s each); %s: %s.',
        n_modes, n_recoveries, round(modes_per_episode::numeric, 2),
        {{ compared_with_text() }}, round(other_share::numeric, 2)
    ) as message
from compared
