{#- R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)), norm(x) = 1 / (1 + exp(-k (x - x0)))
    (scoring.md §5, which defines tau, k and x0). MTTR is the mean duration of the episodes that ended in the window and
    of the open one. rho_regression is the share of recoveries that were followed by an episode of the same failure
    mode: all but the last recovery of each mode, and the last one too if the open episode has this mode. int_windows
    computes drift of plausibility, domain alignment and coherence level (windows/drift.py), and counts the episodes of
    int_agent_events (recovered_modes in windows/sums.py). Grain and key: agent, as-of, window. The drift of a metric is
    null with too few values; delta_drift is 0 if no metric is measurable. -#}
with episodes as (

    select
        *,
        n_recoveries + n_open_episodes as n_episodes,
        recovery_microseconds + open_microseconds as episode_microseconds
    from {{ ref('int_windows') }}

),

components as (

    select
        agent_id_hash,
        as_of,
        window_days,
        delta_drift,
        delta_csdma_plausibility_score,
        delta_dsdma_domain_alignment,
        delta_coherence_level,
        n_measured_metrics > 0 as is_drift_measured,
        n_episodes::integer as n_episodes,
        coalesce(
            (episode_microseconds::numeric / nullif(n_episodes, 0) / 3600000000)::double precision, 0
        ) as mttr_hours,
        n_open_episodes,
        coalesce(
            (n_recoveries - n_modes + n_modes_open) / nullif(n_recoveries, 0)::double precision, 0
        ) as rho_regression
    from episodes

),

unscaled as (

    select
        *,
        (1 - delta_drift)
        * (1 / (1 + mttr_hours / {{ scoring_parameter('mttr_scale_hours') }}::double precision))
        * (1 - rho_regression) as x
    from components

)

select
    agent_id_hash,
    as_of,
    window_days,
    delta_drift,
    delta_csdma_plausibility_score,
    delta_dsdma_domain_alignment,
    delta_coherence_level,
    is_drift_measured,
    n_episodes,
    mttr_hours,
    n_open_episodes,
    rho_regression,
    1 / (1 + exp(
        -{{ scoring_parameter('norm_k') }}::double precision
        * (x - {{ scoring_parameter('norm_x0') }}::double precision)
    )) as r_score
from unscaled
