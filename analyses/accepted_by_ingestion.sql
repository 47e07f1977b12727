select
    period_start,
    sum(n) filter (where issue = 'ingestion_accepted')
    / sum(n) filter (where issue = 'ingestion_received') as acceptance_rate
from {{ ref('fct_data_quality') }}
where issue like 'ingestion%'
group by period_start
order by period_start desc
