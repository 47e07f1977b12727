select
    loss_component,
    points,
    loss_change
from {{ ref('fct_score_changes') }}
where
    agent_id_hash = '3583bf282c28cd93' -- the agent Driftwood of the sample
    and as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest) and window_days = 7
    and compared_with = 'window'
order by rank
limit 3
