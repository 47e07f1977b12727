{{ config(meta={'range_column': 'as_of', 'range_opens': '>'}) }}
{#- Grain: one row per agent, as-of and window whose R was made from the inputs as they are now (section 5). A row
    still waiting for the Python step is not here, and so in no mart. -#}
with inputs as (

    select
        resilience_inputs_id,
        agent_id_hash,
        as_of,
        window_days,
        mttr_hours,
        n_open_episodes,
        rho_regression,
        inputs_digest
    from {{ ref('int_resilience_inputs') }}

),

scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        inputs_digest,
        delta_csdma_plausibility_score,
        delta_dsdma_domain_alignment,
        delta_coherence_level,
        delta_drift,
        n_measured_metrics,
        r_score
    from {{ ref('int_resilience_scores') }}

)

select
    inputs.resilience_inputs_id as resilience_id,
    inputs.agent_id_hash,
    inputs.as_of,
    inputs.window_days,
    scores.delta_drift,
    scores.delta_csdma_plausibility_score,
    scores.delta_dsdma_domain_alignment,
    scores.delta_coherence_level,
    scores.n_measured_metrics > 0 as is_drift_measured,
    inputs.mttr_hours,
    inputs.n_open_episodes,
    inputs.rho_regression,
    scores.r_score
from inputs
inner join scores
    on
        inputs.agent_id_hash = scores.agent_id_hash
        and inputs.as_of = scores.as_of
        and inputs.window_days = scores.window_days
        and inputs.inputs_digest = scores.inputs_digest
