{#- C = exp(-lambda_C * D_identity) * exp(-mu_C * K_contradiction) (scoring.md §3). D_identity is the number of identity
    changes per trace of the window, K_contradiction the number of overridden actions per trace.
    Grain and key: agent, as-of, window. agent_name is null if the agent has not sent one before the as-of. -#}
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
