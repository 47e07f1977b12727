{#- C = exp(-lambda_C * D_identity) * exp(-mu_C * K_contradiction) (scoring.md §3), with D_identity the identity changes
    and K_contradiction the overridden actions per trace of the window; and who the agent was at the as-of.
    Grain and key: agent, as-of, window. agent_name is null while the agent has sent none. -#}
select
    agent_id_hash,
    agent_name,
    first_traced_at,
    as_of,
    window_days,
    window_start,
    n_traces::integer as n_traces,
    {{ core_identity_columns() }}
from {{ ref('int_windows') }}
