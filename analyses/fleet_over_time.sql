select
    as_of,
    n_agents,
    n_high_fragility,
    mean_capacity_score,
    min_capacity_score
from {{ ref('fct_fleet_capacity') }}
where window_days = 7
order by as_of desc
