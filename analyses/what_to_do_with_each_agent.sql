select
    agents.agent_label,
    categories.label,
    categories.guidance
from {{ ref('dim_agents') }} as agents
inner join {{ ref('dim_capacity_categories') }} as categories on agents.latest_category = categories.category
order by agents.latest_capacity_score, agents.agent_label
