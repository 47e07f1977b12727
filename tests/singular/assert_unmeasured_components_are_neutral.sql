-- What had too little data stands at its neutral value and is listed, and nothing else is: nobody can mistake a value
-- that was filled in for a measured one.
select
    capacity_score_id,
    unmeasured_components,
    i_replay,
    delta_drift,
    ece,
    s_score
from {{ ref('int_capacity_scores') }}
where
    not unmeasured_components <@ '{i_replay, delta_drift, ece, s_score}'
    or ('i_replay' = any(unmeasured_components) and i_replay <> 1)
    or ('delta_drift' = any(unmeasured_components) and delta_drift <> 0)
    or ('ece' = any(unmeasured_components) and ece <> 0)
    or ('s_score' = any(unmeasured_components) and s_score <> 0)
    or ('i_replay' = any(unmeasured_components)) <> (
        n_replayed < {{ scoring_parameter('replay_min_sample') }}
        or not {{ scoring_parameter('replay_enabled') | string | lower }}
    )
    or ('delta_drift' = any(unmeasured_components)) <> (
        num_nonnulls(delta_csdma_plausibility_score, delta_dsdma_domain_alignment, delta_coherence_level) = 0
    )
    or (n_signals > 0 and 's_score' = any(unmeasured_components))
