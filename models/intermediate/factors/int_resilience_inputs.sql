{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- What SQL knows of R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)) (scoring.md §5):
    histograms of the three drift metrics in the scoring window and its baseline, MTTR and rho. The Python step adds
    delta_drift and R.
    Grain and key: agent, as-of, window. Nothing is null; inputs_digest names these inputs and the step's parameters. -#}
{%- set step_parameters = [
    scoring_parameter_text('drift_pseudo_count'), scoring_parameter_text('drift_min_sample'),
    scoring_parameter_text('mttr_scale_hours'), scoring_parameter_text('norm_k'), scoring_parameter_text('norm_x0'),
] | join('|') -%}
with scored_windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start,
        baseline_start
    from {{ ref('int_scored_windows') }}

),

{% if not is_distributed() %}
-- Where a window or a baseline of this run begins or ends: only the totals there are looked up again.
window_edges as (

    select distinct edges.edge
    from scored_windows
    cross join lateral (
        values (scored_windows.as_of), (scored_windows.window_start), (scored_windows.baseline_start)
    ) as edges (edge)

),

{% endif %}
spine_periods as (

    select
        spine.agent_id_hash,
        spine.period_start,
        spine.as_of,
        spine.span_start,
        {{ 'true' if is_distributed() else 'window_edges.edge is not null' }} as is_window_edge
    from {{ ref('int_agent_spine') }} as spine
    {% if not is_distributed() %}
    left join window_edges on spine.as_of = window_edges.edge
    {% endif %}

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

window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_recoveries,
        recovery_microseconds
    from {{ ref('int_window_sums') }}
    where {{ in_scored_range('as_of') }}

),

window_episodes as (

    select
        agent_id_hash,
        as_of,
        window_days,
        open_detected_at,
        n_modes,
        n_modes_open
    from {{ ref('int_window_episodes') }}
    where {{ in_scored_range('as_of') }}

),

running_totals as (

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        spine_periods.span_start,
        spine_periods.is_window_edge,
        {% for metric in drift_metrics() %}
        {% set metric_is_last = loop.last %}
        {% for bin in range(1, 11) %}
        sum(histograms.{{ metric }}_histogram[{{ bin }}]) over so_far as {{ metric }}_{{ bin }}
        {%- if not (metric_is_last and loop.last) %},{% endif %}
        {% endfor %}
        {% endfor %}
    from spine_periods
    left join histograms
        on
            spine_periods.agent_id_hash = histograms.agent_id_hash
            and spine_periods.period_start = histograms.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash, spine_periods.span_start
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

totals_at_edges as {{ inlined() }}(

    select *
    from running_totals
    where is_window_edge

),

windowed as (

    select
        scored_windows.agent_id_hash,
        scored_windows.as_of,
        scored_windows.window_days,
        {% for metric in drift_metrics() %}
        {% for part, until, since in [
            ('recent', 'at_end', 'at_window_start'), ('baseline', 'at_window_start', 'at_baseline_start'),
        ] %}
        array[
            {% for bin in range(1, 11) %}
            {{ window_sum(metric ~ '_' ~ bin, until, since) }}{% if not loop.last %},{% endif %}
            {% endfor %}
        ]::integer[] as {{ metric }}_{{ part }},
        {% endfor %}
        {% endfor %}
        window_sums.n_recoveries,
        window_sums.recovery_microseconds,
        scored_windows.as_of - window_episodes.open_detected_at as open_for,
        coalesce(window_episodes.n_modes, 0) as n_modes,
        coalesce(window_episodes.n_modes_open, 0) as n_modes_open
    from scored_windows
    inner join window_sums
        on
            scored_windows.agent_id_hash = window_sums.agent_id_hash
            and scored_windows.as_of = window_sums.as_of
            and scored_windows.window_days = window_sums.window_days
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
    left join window_episodes
        on
            scored_windows.agent_id_hash = window_episodes.agent_id_hash
            and scored_windows.as_of = window_episodes.as_of
            and scored_windows.window_days = window_episodes.window_days

),

inputs as (

    select
        *,
        (open_for is not null)::integer as n_open_episodes,
        coalesce({{ mean_time_to_recovery('recovery_microseconds', 'n_recoveries', 'open_for') }}, 0) as mttr_hours,
        coalesce({{ rate('(n_recoveries - n_modes + n_modes_open)', 'nullif(n_recoveries, 0)') }}, 0) as rho_regression
    from windowed

)

select
    agent_id_hash,
    as_of,
    window_days,
    {% for metric in drift_metrics() %}
    {{ metric }}_recent,
    {{ metric }}_baseline,
    {% endfor %}
    n_recoveries::integer as n_recoveries,
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
