{#- Grain: one row per agent, at its latest as-of. -#}
select
    agents.agent_id_hash,
    agents.agent_name,
    scores.capacity_score
from {{ ref('ciris_scoring', 'dim_agents') }} as agents
inner join {{ ref('ciris_scoring', 'fct_capacity_scores') }} as scores
    on
        agents.agent_id_hash = scores.agent_id_hash
        and agents.latest_as_of = scores.as_of
        and scores.window_days = 7
