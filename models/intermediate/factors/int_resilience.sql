{#- R = norm((1 - delta_drift) * 1 / (1 + MTTR / tau) * (1 - rho_regression)), norm(x) = 1 / (1 + exp(-k (x - x0)))
    (scoring.md §5, which defines tau, k and x0). MTTR is the mean duration of the episodes that ended in the window and
    of the open one. rho_regression is the share of recoveries that were followed by an episode of the same failure
    mode. int_windows computes drift and R. Grain and key: agent, as-of, window. The drift of a metric is null with too
    few values; delta_drift is 0 if no metric is measurable. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ resilience_columns() }}
from {{ ref('int_windows') }}
