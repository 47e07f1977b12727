{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'as_of', 'range_opens': '>'},
    indexes=[{'columns': ['agent_id_hash', 'as_of', 'window_days']}, {'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    post_hook="{{ update_statistics() }}",
  )
}}
{#- Grain: one row per agent, as-of and window (section 5). What SQL knows of resilience; the Python step turns it
    into delta_drift and R. inputs_digest names exactly these inputs and the parameters used with them. -#}
{%- set step_parameters = [
    scoring_parameter_text('drift_pseudo_count'), scoring_parameter_text('drift_min_sample'),
    scoring_parameter_text('mttr_scale_hours'), scoring_parameter_text('norm_k'), scoring_parameter_text('norm_x0'),
] | join('|') -%}
-- At a window's edge a scoring or a baseline window of this run begins or ends: only totals there are looked up again.
with spine_periods as (

    select
        agent_id_hash,
        period_start,
        as_of,
        bool_or(
            as_of > {{ cutoff() }}
            {% for periods in ['window_periods', '(window_periods + baseline_periods)'] %}
            or (
                as_of + {{ periods }} * {{ period_length() }} > {{ cutoff() }}
                and as_of + {{ periods }} * {{ period_length() }} <= {{ as_of() }}
            )
            {% endfor %}
        ) as is_window_edge
    from {{ ref('int_agent_spine') }}
    group by
        agent_id_hash,
        period_start,
        as_of

),

spine as (

    select
        agent_spine_id,
        agent_id_hash,
        window_days,
        as_of,
        window_periods,
        baseline_periods
    from {{ ref('int_agent_spine') }}
    where is_to_be_scored

),

scored_rows as (

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_window_sums') }}
    where {{ is_rewritten('as_of', '>') }}

),

histograms as (

    select
        agent_id_hash,
        period_start,
        {% for metric in drift_metrics() %}
        {{ metric }}_histogram{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_score_histograms') }}
    where period_start >= {{ read_from() }}

),

-- Recoveries that some window of this run can reach.
recoveries as (

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

recovery_sums as (

    select
        agent_id_hash,
        period_start,
        count(*)::integer as n_recoveries,
        {{ microseconds('sum(traced_at - detected_at)') }} as recovery_microseconds
    from recoveries
    group by
        agent_id_hash,
        period_start

),

running_totals as (

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        spine_periods.is_window_edge,
        {% for metric in drift_metrics() %}
        {% for bin in range(1, 11) %}
        sum(histograms.{{ metric }}_histogram[{{ bin }}]) over so_far as {{ metric }}_{{ bin }},
        {% endfor %}
        {% endfor %}
        sum(recovery_sums.n_recoveries) over so_far as n_recoveries,
        sum(recovery_sums.recovery_microseconds) over so_far as recovery_microseconds
    from spine_periods
    left join histograms
        on
            spine_periods.agent_id_hash = histograms.agent_id_hash
            and spine_periods.period_start = histograms.period_start
    left join recovery_sums
        on
            spine_periods.agent_id_hash = recovery_sums.agent_id_hash
            and spine_periods.period_start = recovery_sums.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash
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
        spine.agent_spine_id,
        spine.agent_id_hash,
        spine.as_of,
        spine.window_days,
        {% for metric in drift_metrics() %}
        array[
            {% for bin in range(1, 11) %}
            {{ window_sum(metric ~ '_' ~ bin, 'at_end', 'at_window_start') }}
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        ]::integer[] as {{ metric }}_recent,
        array[
            {% for bin in range(1, 11) %}
            {{ window_sum(metric ~ '_' ~ bin, 'at_window_start', 'at_baseline_start') }}
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        ]::integer[] as {{ metric }}_baseline,
        {% endfor %}
        {{ window_sum('n_recoveries', 'at_end', 'at_window_start') }} as n_recoveries,
        {{ window_sum('recovery_microseconds', 'at_end', 'at_window_start') }} as recovery_microseconds
    from spine
    inner join totals_at_edges as at_end
        on
            spine.agent_id_hash = at_end.agent_id_hash
            and spine.as_of = at_end.as_of
    left join totals_at_edges as at_window_start
        on
            spine.agent_id_hash = at_window_start.agent_id_hash
            and spine.as_of - spine.window_periods * {{ period_length() }} = at_window_start.as_of
    left join totals_at_edges as at_baseline_start
        on
            spine.agent_id_hash = at_baseline_start.agent_id_hash
            and spine.as_of - (spine.window_periods + spine.baseline_periods) * {{ period_length() }}
            = at_baseline_start.as_of

),

-- The episode that is open at each as-of, one at most: detected before it, not recovered before it.
last_events as (

    select
        agents.agent_id_hash,
        latest.event,
        latest.detected_at,
        latest.failure_mode
    from (select distinct agent_id_hash from scored_rows) as agents
    cross join lateral (
        select
            events.event,
            events.detected_at,
            events.failure_mode
        from {{ ref('int_fragility_events') }} as events
        where
            events.agent_id_hash = agents.agent_id_hash
            and events.traced_at < {{ as_of() }}
        order by
            events.traced_at desc,
            events.audit_sequence_number desc nulls first,
            events.trace_id collate "C" desc nulls first
        limit 1
    ) as latest

),

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
        (select run.as_of from {{ ref('int_scoring_run') }} as run) as last_open_as_of,
        failure_mode
    from last_events
    where event = 'detection'

),

open_episodes as (

    select
        episodes.agent_id_hash,
        open_at.as_of,
        episodes.detected_at,
        episodes.failure_mode
    from episodes
    cross join lateral generate_series(
        greatest(
            {{ period_start('episodes.detected_at') }},
            (select run.cutoff from {{ ref('int_scoring_run') }} as run)
        ) + {{ period_length() }},
        episodes.last_open_as_of,
        {{ period_length() }}
    ) as open_at (as_of)

),

-- Which failure modes were recovered from in each window. Every recovery in a window but the last of its mode was
-- followed by another episode of that mode; the last one was too when the open episode is of its mode.
recovered_modes as (

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
    from recovered_modes

),

modes_in_window as (

    select
        stretches.agent_id_hash,
        last_recovered.as_of,
        scoring_windows.window_days,
        count(*) as n_modes,
        count(*) filter (where stretches.failure_mode = open_episodes.failure_mode) as n_modes_open
    from mode_stretches as stretches
    cross join {{ ref('scoring_windows') }} as scoring_windows
    cross join {{ ref('int_scoring_run') }} as scoring_run
    cross join lateral generate_series(
        greatest(stretches.period_start, scoring_run.cutoff) + {{ period_length() }},
        least(
            stretches.period_start + {{ days('scoring_windows.window_days') }},
            stretches.next_period_start,
            scoring_run.as_of
        ),
        {{ period_length() }}
    ) as last_recovered (as_of)
    left join open_episodes
        on
            stretches.agent_id_hash = open_episodes.agent_id_hash
            and last_recovered.as_of = open_episodes.as_of
    where
        stretches.next_period_start is null
        or stretches.next_period_start > scoring_run.cutoff
    group by
        stretches.agent_id_hash,
        last_recovered.as_of,
        scoring_windows.window_days

),

inputs as (

    select
        windowed.agent_spine_id as resilience_inputs_id,
        windowed.agent_id_hash,
        windowed.as_of,
        windowed.window_days,
        {% for metric in drift_metrics() %}
        windowed.{{ metric }}_recent,
        windowed.{{ metric }}_baseline,
        {% endfor %}
        windowed.n_recoveries::integer as n_recoveries,
        (open_episodes.detected_at is not null)::integer as n_open_episodes,
        coalesce({{ mean_time_to_recovery(
            'windowed.recovery_microseconds',
            'windowed.n_recoveries',
            'windowed.as_of - open_episodes.detected_at',
        ) }}, 0) as mttr_hours,
        coalesce({{ rate(
            '(windowed.n_recoveries - modes_in_window.n_modes + modes_in_window.n_modes_open)',
            'nullif(windowed.n_recoveries, 0)',
        ) }}, 0) as rho_regression
    from windowed
    inner join scored_rows
        on
            windowed.agent_id_hash = scored_rows.agent_id_hash
            and windowed.as_of = scored_rows.as_of
            and windowed.window_days = scored_rows.window_days
    left join open_episodes
        on
            windowed.agent_id_hash = open_episodes.agent_id_hash
            and windowed.as_of = open_episodes.as_of
    left join modes_in_window
        on
            windowed.agent_id_hash = modes_in_window.agent_id_hash
            and windowed.as_of = modes_in_window.as_of
            and windowed.window_days = modes_in_window.window_days

)

select
    resilience_inputs_id,
    agent_id_hash,
    as_of,
    window_days,
    {% for metric in drift_metrics() %}
    {{ metric }}_recent,
    {{ metric }}_baseline,
    {% endfor %}
    n_recoveries,
    n_open_episodes,
    mttr_hours,
    rho_regression,
    md5(concat_ws(
        '|',
        {% for metric in drift_metrics() %}
        {{ metric }}_recent::text,
        {{ metric }}_baseline::text,
        {% endfor %}
        mttr_hours,
        rho_regression,
        '{{ step_parameters }}'
    )) as inputs_digest,
    '{{ step_parameters }}'::text as step_parameters
from inputs
