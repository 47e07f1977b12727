select
    as_of,
    n_agents,
    k_contradiction_correlation,
    i_chain_correlation,
    episode_cv
from {{ ref('fct_interval_calibration') }}
where window_days = 7
order by as_of desc
