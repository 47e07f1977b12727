select
    as_of,
    component_value as delta_drift
from {{ ref('fct_factor_components') }}
where
    agent_id_hash = '3583bf282c28cd93' -- the agent Driftwood of the sample
    and window_days = 7 and component = 'delta_drift'
order by as_of desc
