{#- C = exp(-lambda_c * D_identity) * exp(-mu_c * K_contradiction) (scoring.md §3). D_identity is the share of traces
    with another agent_name than before, K_contradiction the share of traces with action_was_overridden. Grain and key:
    agent, as-of, window. -#}
with rates as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_identity_changes / n_traces::double precision as d_identity,
        n_overridden / n_traces::double precision as k_contradiction,
        n_conscience_failed / n_traces::double precision as conscience_failure_rate
    from {{ ref('int_windows') }}

)

select
    *,
    exp(-{{ scoring_parameter('lambda_c') }}::double precision * d_identity)
    * exp(-{{ scoring_parameter('mu_c') }}::double precision * k_contradiction) as c_score
from rates
