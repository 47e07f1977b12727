{{ config(meta={'range': 'as_of'}) }}
{#- R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)), norm(x) = 1 / (1 + exp(-k (x - x0)))
    (scoring.md §5). MTTR is the mean duration of the episodes that ended in the window and of the open one; rho the share
    of recoveries that were followed by an episode of the same failure mode. int_windows computes drift and R in numpy.
    Grain and key: agent, as-of, window. A delta is null with too few values; with none measurable delta_drift is 0.
    mttr_hours_before is null without an episode in the steady_days before the window. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    delta_drift,
    delta_csdma_plausibility_score,
    delta_dsdma_domain_alignment,
    delta_coherence_level,
    n_measured_metrics > 0 as is_drift_measured,
    (n_recoveries + n_open_episodes)::integer as n_episodes,
    coalesce({{ mean_time_to_recovery(
        'recovery_microseconds + open_microseconds', 'n_recoveries + n_open_episodes'
    ) }}, 0) as mttr_hours,
    n_open_episodes,
    coalesce({{ rate('(n_recoveries - n_modes + n_modes_open)', 'nullif(n_recoveries, 0)') }}, 0) as rho_regression,
    r_score,
    coalesce({{ mean_time_to_recovery(
        'steady_recovery_microseconds + open_microseconds', 'steady_n_recoveries + n_open_episodes'
    ) }}, 0) as mttr_hours_steady,
    (steady_n_recoveries + n_open_episodes)::integer as n_steady_episodes,
    r_score_steady,
    {{ mean_time_to_recovery('before_recovery_microseconds', 'before_n_recoveries') }} as mttr_hours_before,
    before_n_recoveries::integer as n_episodes_before
from {{ ref('int_windows') }}
