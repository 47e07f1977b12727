{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe) (scoring.md §6), with ECE = sum over bins of (n_bin / N) * |mean
    confidence - success rate|, Q_deferral the mean value of the window's judged deferrals (1 where there is none), and
    U_unsafe the share of traces that failed under high entropy.
    The steady value takes deferrals as often and as good as in the last steady_days (certainty.md §4b).
    Grain and key: agent, as-of, window. Without a judged trace ECE is unmeasured and 0; null is q_deferral_before without
    a deferral judged in as many days before the window. -#}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_traces,
        n_unsafe,
        n_judged,
        excess_confidence
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

),

judged_deferrals as (

    select
        agent_id_hash,
        created_at,
        judged_from,
        deferral_value
    from {{ ref('int_deferral_verdicts') }}
    where
        agent_id_hash is not null
        and is_judged
        and created_at >= {{ ranges_from() }}
        and isfinite(created_at)

),

-- At which as-ofs deferrals count: those whose range holds them and by which their outcome was known.
deferral_stretches as (

    select
        judged_deferrals.agent_id_hash,
        ranges.window_days,
        ranges.range_name,
        greatest(
            {{ period_start('judged_deferrals.judged_from') }},
            {{ period_start('judged_deferrals.created_at') }} + {{ days('ranges.days_until') }},
            scoring_run.cutoff
        ) + {{ period_length() }} as first_as_of,
        least(
            {{ period_start('judged_deferrals.created_at') }} + {{ days('ranges.days_from') }},
            scoring_run.as_of
        ) as last_as_of,
        count(*) as n,
        sum(judged_deferrals.deferral_value) as value
    from judged_deferrals
    cross join {{ window_ranges() }} as ranges
    cross join {{ ref('int_scoring_run') }} as scoring_run
    where judged_deferrals.judged_from < scoring_run.as_of
    group by 1, 2, 3, 4, 5

),

-- What deferrals add to a range at their first as-of, and take away after their last.
both_ends as (

    select
        stretches.agent_id_hash,
        stretches.window_days,
        stretches.range_name,
        case
            when ends.is_over = 0 then stretches.first_as_of
            else stretches.last_as_of + {{ period_length() }}
        end as as_of,
        case when ends.is_over = 0 then stretches.n else -stretches.n end as n,
        case when ends.is_over = 0 then stretches.value else -stretches.value end as value
    from deferral_stretches as stretches
    cross join generate_series(0, 1) as ends (is_over)
    where stretches.first_as_of <= stretches.last_as_of

),

moves as (

    select
        agent_id_hash,
        window_days,
        as_of,
        {% for range in ['window', 'steady', 'before'] %}
        sum(n) filter (where range_name = '{{ range }}') as n_{{ range }},
        sum(value) filter (where range_name = '{{ range }}') as value_{{ range }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from both_ends
    group by
        agent_id_hash,
        window_days,
        as_of

),

-- From each move up to the next; after the last one nothing counts any more.
totals as (

    select
        agent_id_hash,
        window_days,
        as_of as first_as_of,
        lead(as_of) over by_time - {{ period_length() }} as last_as_of,
        {% for range in ['window', 'steady', 'before'] %}
        sum(n_{{ range }}) over so_far as n_{{ range }},
        sum(value_{{ range }}) over so_far as value_{{ range }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from moves
    window
        by_time as (partition by agent_id_hash, window_days order by as_of),
        so_far as (by_time rows between unbounded preceding and current row)

),

deferral_sums as (

    select
        totals.agent_id_hash,
        totals.window_days,
        {{ nth_period('totals.first_as_of', 'nth.n') }} as as_of,
        {% for range in ['window', 'steady', 'before'] %}
        totals.n_{{ range }},
        totals.value_{{ range }} / nullif(totals.n_{{ range }}, 0) as q_{{ range }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from totals
    cross join lateral {{ each_period('totals.first_as_of', 'totals.last_as_of') }} as nth (n)

),

components as (

    select
        window_sums.agent_id_hash,
        window_sums.as_of,
        window_sums.window_days,
        coalesce({{ expected_calibration_error('window_sums.excess_confidence', 'window_sums.n_judged') }}, 0) as ece,
        window_sums.n_judged > 0 as is_ece_measured,
        coalesce(deferral_sums.q_window::double precision, 1) as q_deferral,
        coalesce(deferral_sums.n_window, 0)::integer as n_judged_deferrals,
        {{ rate('window_sums.n_unsafe', 'window_sums.n_traces') }} as u_unsafe,
        coalesce(deferral_sums.q_steady::double precision, 1) as q_deferral_steady,
        coalesce(deferral_sums.n_steady, 0)::integer as n_steady_deferrals,
        deferral_sums.q_before::double precision as q_deferral_before,
        coalesce(deferral_sums.n_before, 0)::integer as n_deferrals_before
    from window_sums
    left join deferral_sums using (agent_id_hash, as_of, window_days)

)

select
    agent_id_hash,
    as_of,
    window_days,
    ece,
    is_ece_measured,
    q_deferral,
    n_judged_deferrals,
    u_unsafe,
    {{ incompleteness_awareness('ece', 'q_deferral', 'u_unsafe') }} as i_inc_score,
    q_deferral_steady,
    n_steady_deferrals,
    {{ incompleteness_awareness(
        'ece', worth_of_deferrals('q_deferral_steady', 'n_steady_deferrals', 'window_days'), 'u_unsafe'
    ) }} as i_inc_score_steady,
    q_deferral_before,
    n_deferrals_before
from components
