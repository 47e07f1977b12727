{{ config(meta={'scored_range': 'as_of'}) }}
{#- What SQL knows of R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)) (scoring.md §5):
    MTTR and rho. int_window_statistics adds delta_drift, of the histograms of int_agent_periods, and R.
    Grain and key: agent, as-of, window. Nothing is null. -#}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
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

events as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_open_episodes,
        open_microseconds,
        n_modes,
        n_modes_open
    from {{ ref('int_window_events') }}

),

with_events as (

    select * -- noqa: RF02
    from window_sums
    inner join events using (agent_id_hash, as_of, window_days)

)

select
    agent_id_hash,
    as_of,
    window_days,
    n_recoveries::integer as n_recoveries,
    n_open_episodes,
    coalesce({{ mean_time_to_recovery(
        'recovery_microseconds + open_microseconds', 'n_recoveries + n_open_episodes'
    ) }}, 0) as mttr_hours,
    coalesce({{ rate('(n_recoveries - n_modes + n_modes_open)', 'nullif(n_recoveries, 0)') }}, 0) as rho_regression,
    coalesce({{ mean_time_to_recovery(
        'steady_recovery_microseconds + open_microseconds', 'steady_n_recoveries + n_open_episodes'
    ) }}, 0) as mttr_hours_steady,
    (steady_n_recoveries + n_open_episodes)::integer as n_steady_episodes,
    {{ mean_time_to_recovery('before_recovery_microseconds', 'before_n_recoveries') }} as mttr_hours_before,
    before_n_recoveries::integer as n_episodes_before,
    (
        log_recovery_hours
        + case
            when n_open_episodes > 0 then {{ log_hours("open_microseconds * interval '1 microsecond'") }}
            else 0
        end
    )::double precision as log_hours,
    before_log_recovery_hours::double precision as log_hours_before,
    before_log_recovery_hours_squared::double precision as log_hours_squared_before
from with_events
