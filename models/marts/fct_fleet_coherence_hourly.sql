{{ config(materialized='replace_range', meta={'range': 'hour_start'}) }}
{#- fleet_coherence = mean, cross_agent_divergence = sample standard deviation, over the agents of an hour, of each
    one's mean coherence level in it (scoring.md §7). Waits for the scores. Grain and key: hour_start (UTC), where an
    agent recorded a level. The divergence is null with one agent. -#}
-- depends_on: {{ ref('fct_capacity_scores') }}
with agent_hours as (

    select
        hour_start,
        mean_coherence_level
    from {{ ref('int_agent_hours') }}
    where
        {{ in_judged_range('hour_start') }}
        and mean_coherence_level is not null

)

select
    hour_start,
    count(*)::integer as n_agents,
    avg(mean_coherence_level)::double precision as fleet_coherence,
    stddev_samp(mean_coherence_level)::double precision as cross_agent_divergence
from agent_hours
group by hour_start
