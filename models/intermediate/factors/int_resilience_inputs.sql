{{ config(meta={'scored_range': 'as_of'}) }}
{#- What SQL knows of R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)) (scoring.md §5):
    histograms of the three drift metrics in the scoring window and its baseline, MTTR and rho. int_window_statistics
    adds delta_drift and R.
    Grain and key: agent, as-of, window. Nothing is null. -#}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for metric in drift_metrics() %}
        {{ metric }}_histogram as {{ metric }}_recent,
        baseline_{{ metric }}_histogram as {{ metric }}_baseline,
        {% endfor %}
        n_recoveries,
        recovery_microseconds,
        steady_n_recoveries,
        steady_recovery_microseconds,
        before_n_recoveries,
        before_recovery_microseconds,
        log_recovery_hours,
        before_log_recovery_hours,
        before_log_recovery_hours_squared
    from {{ ref('int_window_sums') }}

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

),

with_episodes as (

    select
        window_sums.*,
        window_sums.as_of - window_episodes.open_detected_at as open_for,
        coalesce(window_episodes.n_modes, 0) as n_modes,
        coalesce(window_episodes.n_modes_open, 0) as n_modes_open
    from window_sums
    left join window_episodes using (agent_id_hash, as_of, window_days)

),

inputs as (

    select
        *,
        (open_for is not null)::integer as n_open_episodes,
        coalesce({{ mean_time_to_recovery('recovery_microseconds', 'n_recoveries', 'open_for') }}, 0) as mttr_hours,
        coalesce({{ rate('(n_recoveries - n_modes + n_modes_open)', 'nullif(n_recoveries, 0)') }}, 0) as rho_regression,
        coalesce({{ mean_time_to_recovery(
            'steady_recovery_microseconds', 'steady_n_recoveries', 'open_for'
        ) }}, 0) as mttr_hours_steady,
        {{ mean_time_to_recovery(
            'before_recovery_microseconds', 'before_n_recoveries', 'null::interval'
        ) }} as mttr_hours_before
    from with_episodes

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
    mttr_hours_steady,
    (steady_n_recoveries + n_open_episodes)::integer as n_steady_episodes,
    mttr_hours_before,
    before_n_recoveries::integer as n_episodes_before,
    (
        log_recovery_hours + case when open_for is null then 0 else {{ log_hours('open_for') }} end
    )::double precision as log_hours,
    before_log_recovery_hours::double precision as log_hours_before,
    before_log_recovery_hours_squared::double precision as log_hours_squared_before
from inputs
