{{ config(materialized='replace_range') }}
{#- Categories of the capacity score. A category holds the scores with lower_bound <= capacity_score < upper_bound
    (scoring.md §8). Grain and key: category. lower_bound and upper_bound may be null. -#}
-- depends_on: {{ ref('int_scoring_run') }}
select
    category,
    label,
    guidance,
    lower_bound::double precision as lower_bound,
    upper_bound::double precision as upper_bound,
    -- Colours that colour-blind people can distinguish on light and dark backgrounds. They are not in the seed, because
    -- dbt does not add columns to an existing seed table.
    case
        when category = 'high_fragility' then '#d03b52'
        when category = 'moderate' then '#c98500'
        when category = 'healthy' then '#2f7ed8'
        when category = 'high_capacity' then '#14907f'
        else '#7a7f87'
    end as colour
from {{ ref('capacity_categories') }}
