{{ config(materialized='table') }}
{#- A table on a mart, which is built after the publication. Grain: one row. -#}
-- depends_on: {{ ref('ciris_scoring', 'fct_scoring_runs') }}
select
    max(latest_as_of) as newest_as_of,
    count(*) as n_agents
from {{ ref('ciris_scoring', 'dim_agents') }}
