select
    coalesce(started_at, ended_at) as happened_at,
    command,
    outcome,
    message,
    remedy,
    seconds,
    n_scores,
    n_late_traces
from {{ ref('fct_scoring_runs') }}
order by happened_at desc
limit 5
