{{ config(materialized='incremental', unique_key='newest_as_of') }}
{#- Number of agents of each publication. Grain: one row per newest as-of. -#}
-- depends_on: {{ ref('ciris_scoring', 'fct_scoring_runs') }}
select
    max(latest_as_of) as newest_as_of,
    count(*) as n_agents
from {{ ref('ciris_scoring', 'dim_agents') }}
