select
    scores.agent_label,
    scores.interval_driver,
    parts.component_low,
    parts.component_value,
    parts.component_high
from {{ ref('fct_capacity_scores') }} as scores
inner join {{ ref('fct_factor_components') }} as parts
    on
        scores.agent_id_hash = parts.agent_id_hash
        and scores.as_of = parts.as_of
        and scores.window_days = parts.window_days
        and scores.interval_driver = parts.component
where
    scores.as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest) and scores.window_days = 7
    and scores.category_certainty = 'uncertain'
order by scores.agent_label
