select
    agent_label,
    agent_name,
    former_names,
    last_traced_at,
    latest_capacity_score
from {{ ref('dim_agents') }}
where cardinality(former_names) > 0
order by agent_label
