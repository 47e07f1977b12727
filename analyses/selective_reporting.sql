select
    agent_label,
    window_days,
    red_flag,
    field,
    message
from {{ ref('fct_record_signs') }}
where as_of = (select max(newest.as_of) from {{ ref('fct_capacity_scores') }} as newest)
order by agent_label, window_days, red_flag, field
