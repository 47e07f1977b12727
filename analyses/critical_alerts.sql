select
    agent_label,
    window_days,
    kind,
    message
from {{ ref('fct_capacity_alerts') }}
where severity = 'critical'
order by agent_label, window_days, kind
