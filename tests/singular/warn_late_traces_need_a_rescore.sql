{{ config(severity='warn', fail_calc='coalesce(sum(n), 0)') }}
-- Traces that arrived when the scores of their period were final already. They are in no score until somebody scores
-- those periods again; the number of results is the number of traces.
select
    agent_id_hash,
    period_start,
    n
from {{ ref('int_data_quality') }}
where issue = 'late_trace'
