select
    agent_label,
    window_days,
    kind,
    message
from {{ ref('fct_capacity_alerts') }}
where
    severity = 'critical'
    and as_of = (select max(fleet.as_of) from {{ ref('fct_fleet_capacity') }} as fleet)
order by agent_label, window_days, kind
