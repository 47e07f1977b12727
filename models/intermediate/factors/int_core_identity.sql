{{ config(meta={'range': 'as_of'}) }}
{#- C = exp(-lambda_C * D_identity) * exp(-mu_C * K_contradiction) (scoring.md §3), with D_identity the identity changes
    and K_contradiction the overridden actions per trace of the window; and who the agent was at the as-of.
    Grain and key: agent, as-of, window. agent_name is null while the agent has sent none. -#}
with window_sums as (

    select
        agent_id_hash,
        agent_name,
        first_traced_at,
        as_of,
        window_days,
        window_start,
        n_traces,
        {{ rate('n_identity_changes', 'n_traces') }} as d_identity,
        {{ rate('n_overridden', 'n_traces') }} as k_contradiction,
        {{ rate('n_conscience_failed', 'n_traces') }} as conscience_failure_rate
    from {{ ref('int_windows') }}

)

select
    agent_id_hash,
    agent_name,
    first_traced_at,
    as_of,
    window_days,
    window_start,
    n_traces::integer as n_traces,
    d_identity,
    k_contradiction,
    conscience_failure_rate,
    {{ core_identity('d_identity', 'k_contradiction') }} as c_score
from window_sums
