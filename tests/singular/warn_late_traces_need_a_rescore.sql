{{ config(severity='warn', fail_calc='coalesce(sum(n), 0)') }}
{%- do use_settings() %}
-- Traces that arrived, or got an outcome or another event, after their scores were final. The scores stay unchanged
-- until somebody rescores the as-ofs from first_as_of to last_as_of. The number of results is the number of traces.
select
    agent_id_hash,
    period_start,
    issue,
    n,
    first_as_of,
    last_as_of
from {{ rows_after_run('fct_data_quality') }}
where issue in ('late_trace', 'late_outcome')
