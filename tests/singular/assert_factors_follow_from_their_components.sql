-- C, I_int, R and I_inc are what the formulas of scoring.md §3 to 6 make of the components beside them; R comes from
-- Python. Formulas spelt out, not called: the models call the macros.
with candidates as (

    select
        *,
        (1 - delta_drift)
        / (1 + mttr_hours / {{ scoring_parameter('mttr_scale_hours') }})
        * (1 - rho_regression) as raw_r,
        (
            coalesce(delta_csdma_plausibility_score, 0)
            + coalesce(delta_dsdma_domain_alignment, 0)
            + coalesce(delta_coherence_level, 0)
        ) / nullif(
            num_nonnulls(delta_csdma_plausibility_score, delta_dsdma_domain_alignment, delta_coherence_level), 0
        ) as mean_drift
    from {{ ref('int_capacity_scores') }}

)

select
    capacity_score_id,
    agent_id_hash,
    as_of,
    window_days
from candidates
where
    abs(c_score - exp(
        -({{ scoring_parameter('lambda_c') }} * d_identity + {{ scoring_parameter('mu_c') }} * k_contradiction)
    )) > 1e-12
    or abs(i_int_score - i_chain * i_coverage * i_replay) > 1e-12
    or abs(delta_drift - coalesce(mean_drift, 0)) > 1e-12
    or abs(r_score - 1 / (
        1 + exp(-{{ scoring_parameter('norm_k') }} * (raw_r - {{ scoring_parameter('norm_x0') }}))
    )) > 1e-12
    or abs(i_inc_score - (1 - ece) * q_deferral * (1 - u_unsafe)) > 1e-12
