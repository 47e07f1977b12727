{#- The signs that are counts of traces (certainty.md §5): x of n in the scoring window, against the agent's own
    baseline or the fleet's median in the same window (macro sign_comparison). value is a share or a count, and
    comparison_value the other's share, or its count in as many traces; of volume_jump the logarithm of the ratio of
    traces per day, and the other's traces per day.
    Grain: agent, as-of, window, sign and field of a sign that is raised. field is null where a sign has none, and what
    is compared where the fleet has no median. -#}
{%- set signs = ['contradicted_null', 'unreported', 'shared_key', 'renumbered', 'key_turnover', 'volume_jump'] -%}
with agents as (

    select
        agent_id_hash,
        {{ period_start('first_traced_at') }} as first_period_start
    from {{ ref('int_agents') }}

),

windowed as (

    select
        window_sums.agent_id_hash,
        window_sums.as_of,
        window_sums.window_days,
        ({{ epoch('(window_sums.window_start - greatest(window_sums.baseline_start, agents.first_period_start))') }}
            / 86400)::double precision as baseline_days,
        {% for name in baseline_sums() if '_histogram' not in name %}
        window_sums.{{ name }},
        window_sums.baseline_{{ name }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_window_sums') }} as window_sums
    inner join agents on window_sums.agent_id_hash = agents.agent_id_hash
    where {{ in_scored_range('window_sums.as_of') }}

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
        ) filter (where windowed.{{ count.of }} >= {{ least_baseline() }}) as share_{{ loop.index }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from windowed
    inner join windows_of_candidates using (as_of, window_days)
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
            when '{{ [count.sign, count.field] | select | join(' ') }}' then fleet_medians.share_{{ loop.index }}
            {% endfor %}
        end as fleet_share
    from candidates
    inner join fleet_medians using (as_of, window_days)

),

-- Fenced: what is chosen here is used many times below.
chosen as (

    select
        {{ fence_column('chosen') }}
        *,
        {{ sign_comparison(
            signs, 'sign', 'has_baseline', 'baseline_found', 'baseline_of', 'fleet_share'
        ) }} as compared_with
    from beside_medians
    {{ fence() }} -- noqa: AM09

),

compared as (

    select
        *,
        case when compared_with = 'own_baseline' then baseline_of else {{ median_weight() }} * n_of end as other_of,
        case when compared_with = 'own_baseline' then baseline_share else fleet_share end as other_share,
        n_of * case
            when compared_with = 'own_baseline' then (baseline_found + 1) / (baseline_of + 1)::double precision
            else {{ expected_of_the_fleet('fleet_share') }}
        end as n_expected,
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
    {{ is_sign_raised(signs, 'sign', 'n_found', 'found_share - other_share', 'z', 'volume_ratio', 'n_expected') }}
