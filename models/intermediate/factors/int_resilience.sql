{{ config(meta={'scored_range': 'as_of'}) }}
{#- R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)), norm(x) = 1 / (1 + exp(-k (x - x0)))
    (scoring.md §5): drift and R as int_window_statistics computes them, MTTR and rho beside them.
    Grain and key: agent, as-of, window. A delta is null with too few values; with none measurable delta_drift is 0. -#}
with inputs as (

    select
        agent_id_hash,
        as_of,
        window_days,
        mttr_hours,
        n_open_episodes,
        rho_regression,
        mttr_hours_steady,
        n_steady_episodes
    from {{ ref('int_resilience_inputs') }}

)

select
    inputs.agent_id_hash,
    inputs.as_of,
    inputs.window_days,
    computed.delta_drift,
    computed.delta_csdma_plausibility_score,
    computed.delta_dsdma_domain_alignment,
    computed.delta_coherence_level,
    computed.n_measured_metrics > 0 as is_drift_measured,
    inputs.mttr_hours,
    inputs.n_open_episodes,
    inputs.rho_regression,
    computed.r_score,
    inputs.mttr_hours_steady,
    inputs.n_steady_episodes,
    computed.r_score_steady
from inputs
cross join lateral {{ scored_row(
    ref('int_window_statistics'), 'inputs.agent_id_hash', 'inputs.as_of', 'inputs.window_days'
) }} as computed
