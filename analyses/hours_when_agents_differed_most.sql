select
    hour_start,
    n_agents,
    fleet_coherence,
    cross_agent_divergence
from {{ ref('fct_fleet_coherence_hourly') }}
where n_agents >= 3
order by cross_agent_divergence desc, hour_start asc
limit 5
