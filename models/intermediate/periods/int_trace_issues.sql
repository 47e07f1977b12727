{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    post_hook="{{ update_statistics() }}",
  )
}}
{#- Grain: one row per agent, period and issue: repairs of traces, and traces set aside (section 8). A trace whose
    agent is blank is refused as such, whatever else was wrong with it. -#}
with verdicts as (

    select
        agent_id_hash,
        period_start,
        is_duplicate,
        repairs
    from {{ ref('int_trace_verdicts') }}
    where
        {{ is_rewritten('traced_at') }}
        and (is_duplicate or repairs is not null)

),

issues as (

    select
        agent_id_hash,
        period_start,
        'duplicate_trace' as issue
    from verdicts
    where is_duplicate

    union all

    select
        verdicts.agent_id_hash,
        verdicts.period_start,
        repair.issue
    from verdicts
    cross join lateral unnest(verdicts.repairs) as repair (issue)
    where
        verdicts.agent_id_hash is not null
        or repair.issue = 'blank_agent_id_hash'

)

select
    md5(concat_ws('|', coalesce(agent_id_hash, '-'), extract(epoch from period_start), issue)) as trace_issue_id,
    agent_id_hash,
    period_start,
    issue,
    count(*) as n
from issues
group by
    agent_id_hash,
    period_start,
    issue
