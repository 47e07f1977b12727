{#- The sign deferrals_left_open (certainty.md §5): of the deferrals raised more than 7 days before T, in as
    many days as the window has, the share that nobody had judged by T; against the same a window earlier, over as
    many days as the baseline has, or, with fewer than 5 there, against the fleet's median. One under review is open as
    well: once it is judged nobody can tell which of the two it was at T.
    Grain: agent, as-of and window where the sign is raised. Nothing is null. -#}
with deferrals as (

    select
        agent_id_hash,
        created_at + {{ days(days_to_judge()) }} as due_at,
        case when is_judged then judged_from end as judged_from
    from {{ ref('int_deferral_verdicts') }}
    where
        agent_id_hash is not null
        and is_known_status
        and isfinite(created_at)
        and created_at >= {{ read_from() }} - {{ days(days_to_judge()) }}

),

-- A baseline is what a window of its length would have held one scoring window earlier.
stretches as (

    select
        window_days,
        'window' as stretch,
        {{ days('window_days') }} as stretch_length,
        {{ days(0) }} as earlier_by
    from {{ ref('scoring_windows') }}

    union all

    select
        window_days,
        'baseline' as stretch,
        {{ days('baseline_days') }} as stretch_length,
        {{ days('window_days') }} as earlier_by
    from {{ ref('scoring_windows') }}

),

-- The as-ofs of the run at which deferrals are due, and the last one at which they are open: an outcome known from T on
-- is not known at T, and in a baseline T is as much earlier.
held_stretches as (

    select
        deferrals.agent_id_hash,
        stretches.window_days,
        stretches.stretch,
        greatest({{ period_start('deferrals.due_at + stretches.earlier_by') }}, scoring_run.cutoff)
        + {{ period_length() }} as first_as_of,
        least(
            {{ period_start('deferrals.due_at + stretches.earlier_by + stretches.stretch_length') }}, scoring_run.as_of
        ) as last_as_of,
        greatest(
            coalesce({{ period_start('deferrals.judged_from + stretches.earlier_by') }}, scoring_run.as_of),
            scoring_run.cutoff
        ) as last_open_as_of,
        count(*) as n
    from deferrals
    cross join stretches
    cross join {{ ref('int_scoring_run') }} as scoring_run
    where
        deferrals.due_at + stretches.earlier_by < scoring_run.as_of
        and deferrals.due_at + stretches.earlier_by + stretches.stretch_length
        >= scoring_run.cutoff + {{ period_length() }}
    group by 1, 2, 3, 4, 5, 6

),

held as (

    select
        held_stretches.agent_id_hash,
        held_stretches.window_days,
        held_stretches.stretch,
        held_stretches.last_open_as_of,
        held_stretches.n,
        {{ nth_period('held_stretches.first_as_of', 'nth.n') }} as as_of
    from held_stretches
    cross join lateral {{ each_period('held_stretches.first_as_of', 'held_stretches.last_as_of') }} as nth (n)

),

counted as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for stretch, prefix in {'window': 'n', 'baseline': 'baseline'}.items() %}
        {%- set of_stretch = "stretch = '" ~ stretch ~ "'" %}
        coalesce(sum(n) filter (where {{ of_stretch }}), 0)::bigint as {{ prefix }}_due,
        coalesce(sum(n) filter (where {{ of_stretch }} and as_of <= last_open_as_of), 0)::bigint as {{ prefix }}_open
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from held
    group by
        agent_id_hash,
        as_of,
        window_days

),

fleet_medians as (

    select
        as_of,
        window_days,
        percentile_cont(0.5) within group (order by n_open / n_due::double precision) as median_share
    from counted
    where n_due > 0
    group by
        as_of,
        window_days

),

beside_medians as (

    select
        counted.agent_id_hash,
        counted.as_of,
        counted.window_days,
        'deferrals_left_open' as sign,
        counted.n_open,
        counted.n_due,
        counted.n_open / counted.n_due::double precision as found_share,
        counted.baseline_due,
        counted.baseline_open,
        counted.baseline_open / nullif(counted.baseline_due, 0)::double precision as baseline_share,
        fleet_medians.median_share as fleet_share
    from counted
    inner join fleet_medians using (as_of, window_days)
    where counted.n_open > 0

),

chosen as (

    select
        *,
        {{ sign_comparison(
            ['deferrals_left_open'], 'sign', '(baseline_due >= ' ~ least_deferrals() ~ ')',
            'baseline_open', 'baseline_due', 'fleet_share'
        ) }} as compared_with
    from beside_medians

),

compared as (

    select
        *,
        case when compared_with = 'own_baseline' then baseline_due else {{ median_weight() }} * n_due end as other_due,
        case when compared_with = 'own_baseline' then baseline_share else fleet_share end as other_share
    from chosen

),

judged as (

    select
        *,
        {{ excess_z('n_open', 'n_due', 'other_share * other_due', 'other_due') }} as z
    from compared

)

select
    judged.agent_id_hash,
    judged.as_of,
    judged.window_days,
    judged.sign,
    judged.found_share as value,
    judged.other_share as comparison_value,
    judged.compared_with,
    judged.z,
    format(
        '%s of %s deferrals that were raised more than {{ days_to_judge() }} days before are still open (%s); %s: %s.',
        judged.n_open, judged.n_due, {{ percent('judged.found_share') }},
        {{ compared_with_text() }}, {{ percent('judged.other_share') }}
    ) as message
from judged
inner join {{ ref('int_window_sums') }} as sums using (agent_id_hash, as_of, window_days)
where
    {{ in_scored_range('sums.as_of') }}
    and {{ is_sign_raised(
        ['deferrals_left_open'], 'judged.sign', 'judged.n_open', 'judged.found_share - judged.other_share', 'judged.z'
    ) }}
