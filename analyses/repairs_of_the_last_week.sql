select
    issue,
    sum(n) as n
from {{ ref('fct_data_quality') }}
where period_start >= (select max(newest.as_of) - interval '7 days' from {{ ref('fct_capacity_scores') }} as newest)
group by issue
order by n desc, issue asc
