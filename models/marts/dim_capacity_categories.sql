{{ config(materialized='replace_range', tags='ciris_static') }}
{#- A category holds the scores with lower_bound <= capacity_score < upper_bound (scoring.md §8); insufficient_data
    holds those without a score. Waits for the scores. Grain and key: category. A bound is null where there is none. -#}
-- depends_on: {{ ref('fct_capacity_scores') }}
select
    category,
    label,
    guidance,
    lower_bound::double precision as lower_bound,
    upper_bound::double precision as upper_bound,
    -- Apart for the colour-blind too, on a light and on a dark ground. Not in the seed: dbt adds no column to one.
    case
        when category = 'high_fragility' then '#d03b52'
        when category = 'moderate' then '#c98500'
        when category = 'healthy' then '#2f7ed8'
        when category = 'high_capacity' then '#14907f'
        else '#7a7f87'
    end as colour
from {{ ref('capacity_categories') }}
