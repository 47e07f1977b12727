{{ config(materialized='replace_range', meta={'range': 'hour_start'}) }}
{#- Mean (fleet_coherence) and sample standard deviation (cross_agent_divergence) of the agents' mean coherence levels
    in an hour (scoring.md §7). Grain and key: hour_start (UTC) with a recorded level. The divergence is null with one
    agent. -#}
with agent_hours as (

    select
        hour_start,
        mean_coherence_level
    from {{ ref('int_agent_hours') }}
    where
        {{ in_checked_range('hour_start') }}
        and mean_coherence_level is not null

)

select
    hour_start,
    count(*)::integer as n_agents,
    avg(mean_coherence_level)::double precision as fleet_coherence,
    stddev_samp(mean_coherence_level)::double precision as cross_agent_divergence
from agent_hours
group by hour_start
