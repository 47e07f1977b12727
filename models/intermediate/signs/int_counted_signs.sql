{#- The signs that are counts of traces (certainty.md §5): x of n in the scoring window, against the agent's own
    baseline or the fleet's median in the same window (macro sign_comparison). value is a share or a count, and
    comparison_value the other's share, or its count in as many traces; of volume_jump the logarithm of the ratio of
    traces per day, and the other's traces per day.
    Grain: agent, as-of, window, sign and field of a sign that is raised. field is null where a sign has none, and what
    is compared where the fleet has no median. -#}
{%- set signs = ['contradicted_null', 'unreported', 'shared_key', 'renumbered', 'key_turnover', 'volume_jump'] -%}
with scored_windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start,
        baseline_start
    from {{ ref('int_scored_windows') }}

),

-- Where a window or a baseline of this run begins or ends: only the totals there are looked up again.
window_edges as (

    select distinct edges.edge
    from scored_windows
    cross join lateral (
        values (scored_windows.as_of), (scored_windows.window_start), (scored_windows.baseline_start)
    ) as edges (edge)

),

spine_periods as (

    select
        spine.agent_id_hash,
        spine.period_start,
        spine.as_of,
        spine.span_start,
        window_edges.edge is not null as is_window_edge
    from {{ ref('int_agent_spine') }} as spine
    left join window_edges on spine.as_of = window_edges.edge

),

sign_periods as (

    select
        agent_id_hash,
        period_start,
        {% for counter in sign_counters() %}
        {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_sign_periods') }}
    where period_start >= {{ read_from() }}

),

agents as (

    select
        agent_id_hash,
        {{ period_start('first_traced_at') }} as first_period_start
    from {{ ref('int_agents') }}

),

running_totals as (

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        spine_periods.span_start,
        spine_periods.is_window_edge,
        {% for counter in sign_counters() %}
        sum(sign_periods.{{ counter }}) over so_far as {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from spine_periods
    left join sign_periods
        on
            spine_periods.agent_id_hash = sign_periods.agent_id_hash
            and spine_periods.period_start = sign_periods.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash, spine_periods.span_start
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

totals_at_edges as (

    select *
    from running_totals
    where is_window_edge

),

windowed as (

    select
        scored_windows.agent_id_hash,
        scored_windows.as_of,
        scored_windows.window_days,
        (
            extract(
                epoch from scored_windows.window_start
                - greatest(scored_windows.baseline_start, agents.first_period_start)
            ) / 86400
        )::double precision as baseline_days,
        {% for counter in sign_counters() %}
        ({{ window_sum(counter, 'at_end', 'at_window_start') }})::integer as {{ counter }},
        ({{ window_sum(counter, 'at_window_start', 'at_baseline_start') }})::integer as baseline_{{ counter }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from scored_windows
    inner join agents on scored_windows.agent_id_hash = agents.agent_id_hash
    inner join totals_at_edges as at_end
        on
            scored_windows.agent_id_hash = at_end.agent_id_hash
            and scored_windows.as_of = at_end.as_of
    left join totals_at_edges as at_window_start
        on
            scored_windows.agent_id_hash = at_window_start.agent_id_hash
            and scored_windows.window_start = at_window_start.as_of
            and at_end.span_start = at_window_start.span_start
    left join totals_at_edges as at_baseline_start
        on
            scored_windows.agent_id_hash = at_baseline_start.agent_id_hash
            and scored_windows.baseline_start = at_baseline_start.as_of
            and at_end.span_start = at_baseline_start.span_start

),

-- x of n, in the window and in the baseline.
measured as (

    select
        windowed.agent_id_hash,
        windowed.as_of,
        windowed.window_days,
        windowed.n_traces / windowed.window_days::double precision as traces_per_day,
        windowed.baseline_n_traces / nullif(windowed.baseline_days, 0) as baseline_traces_per_day,
        windowed.baseline_days,
        counts.sign,
        counts.field,
        counts.n_found,
        counts.n_of,
        counts.baseline_found,
        counts.baseline_of
    from windowed
    cross join lateral (
        values
        {% for count in counted_signs() %}
        (
            '{{ count.sign }}',
            {{ "'" ~ count.field ~ "'" if count.field else 'null' }},
            windowed.{{ count.found }},
            windowed.{{ count.of }},
            windowed.baseline_{{ count.found }},
            windowed.baseline_{{ count.of }}
        ){% if not loop.last %},{% endif %}
        {% endfor %}
    ) as counts (sign, field, n_found, n_of, baseline_found, baseline_of)

),

-- What could be raised, whatever it is compared with.
candidates as (

    select
        *,
        baseline_of >= {{ least_baseline() }} and (sign <> 'volume_jump' or baseline_days >= 7) as has_baseline,
        baseline_found / nullif(baseline_of, 0)::double precision as baseline_share
    from measured
    where {{ is_sign_raised(signs, 'sign', 'n_found', 'n_found / nullif(n_of, 0)::double precision') }}

),

windows_of_candidates as (

    select distinct
        as_of,
        window_days
    from candidates

),

fleet_medians as (

    select
        windowed.as_of,
        windowed.window_days,
        percentile_cont(0.5) within group (order by windowed.n_traces / windowed.window_days::double precision)
            as traces_per_day,
        {% for count in counted_signs() %}
        percentile_cont(0.5) within group (
            order by windowed.{{ count.found }} / nullif(windowed.{{ count.of }}, 0)::double precision
        ) filter (where windowed.{{ count.of }} >= {{ least_baseline() }}) as {{ count.found }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from windowed
    inner join windows_of_candidates as with_candidates
        on
            windowed.as_of = with_candidates.as_of
            and windowed.window_days = with_candidates.window_days
    group by
        windowed.as_of,
        windowed.window_days

),

beside_medians as (

    select
        candidates.*,
        fleet_medians.traces_per_day as fleet_traces_per_day,
        case coalesce(candidates.sign || ' ' || candidates.field, candidates.sign)
            {% for count in counted_signs() %}
            when '{{ [count.sign, count.field] | select | join(' ') }}' then fleet_medians.{{ count.found }}
            {% endfor %}
        end as fleet_share
    from candidates
    inner join fleet_medians
        on
            candidates.as_of = fleet_medians.as_of
            and candidates.window_days = fleet_medians.window_days

),

chosen as (

    select
        *,
        {{ sign_comparison(
            signs, 'sign', 'has_baseline', 'baseline_share', 'fleet_share'
        ) }} as compared_with
    from beside_medians

),

compared as (

    select
        *,
        case when compared_with = 'own_baseline' then baseline_of else {{ median_weight() }} * n_of end as other_of,
        case when compared_with = 'own_baseline' then baseline_share else fleet_share end as other_share,
        case
            when compared_with = 'own_baseline' then baseline_traces_per_day else fleet_traces_per_day
        end as other_traces_per_day
    from chosen

),

judged as (

    select
        *,
        n_found / n_of::double precision as found_share,
        {{ excess_z('n_found', 'n_of', 'other_share * other_of', 'other_of') }} as z,
        ln(traces_per_day / nullif(other_traces_per_day, 0)) as volume_ratio
    from compared

)

select
    agent_id_hash,
    as_of,
    window_days,
    sign,
    field,
    case
        when sign = 'unreported' then found_share
        when sign = 'volume_jump' then volume_ratio
        else n_found
    end::double precision as value,
    case
        when sign = 'unreported' then other_share
        when sign = 'volume_jump' then other_traces_per_day
        else other_share * n_of
    end as comparison_value,
    compared_with,
    z,
    {{ counted_sign_message() }} as message
from judged
where
    {{ is_sign_raised(signs, 'sign', 'n_found', 'found_share - other_share', 'z', 'volume_ratio') }}
