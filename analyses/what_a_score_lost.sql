select
    loss_component,
    factor,
    points_lost,
    loss
from {{ ref('fct_score_attribution') }}
where
    agent_id_hash = '3583bf282c28cd93' -- the agent Driftwood of the sample
    and as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest) and window_days = 7
order by rank
limit 3
