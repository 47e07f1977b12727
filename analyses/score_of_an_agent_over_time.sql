select
    as_of,
    capacity_score,
    score_status
from {{ ref('fct_capacity_scores') }}
where
    agent_id_hash = '3583bf282c28cd93' -- the agent Driftwood of the sample
    and window_days = 7
order by as_of desc
