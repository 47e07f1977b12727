select
    agent_label,
    capacity_score_low,
    capacity_score,
    capacity_score_high,
    category,
    category_certainty,
    weakest_factor
from {{ ref('fct_capacity_scores') }}
where as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest) and window_days = 7
order by capacity_score nulls last
limit 5
