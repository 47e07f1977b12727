select
    agent_id_hash,
    score_before,
    score_now,
    change,
    not_comparable_because
from {{ ref('fct_score_comparisons') }}
where
    as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)
    and window_days = 7 and compared_with = 'window'
order by change, agent_id_hash
