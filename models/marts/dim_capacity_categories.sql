{#- Grain: one row per category. Waits for the gate. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
select
    category,
    label,
    guidance,
    lower_bound::double precision as lower_bound,
    upper_bound::double precision as upper_bound
from {{ ref('capacity_categories') }}
