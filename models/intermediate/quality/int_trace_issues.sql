{{ config(materialized='replace_range', meta={'judged_range': 'period_start'}) }}
{#- Grain: one row per agent, period and issue: repairs of traces, and traces set aside (scoring.md §8). Of a
    trace whose agent is missing, blank or oversized only that and an oversized trace_id are counted, whatever else was
    wrong with it. -#}
with verdicts as (

    select
        agent_id_hash,
        period_start,
        is_duplicate,
        repairs
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and (is_duplicate or repairs is not null or agent_id_hash is null)

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
    where verdicts.agent_id_hash is not null

    union all

    -- A missing agent alone is no repair, so such a row may have none.
    select
        verdicts.agent_id_hash,
        verdicts.period_start,
        refusal.issue
    from verdicts
    cross join lateral unnest(coalesce(verdicts.repairs, array['blank_agent_id_hash'])) as refusal (issue)
    where
        verdicts.agent_id_hash is null
        and refusal.issue in ('blank_agent_id_hash', 'oversized_id')

)

select
    {{ surrogate_key([epoch('period_start'), 'issue'], nullable=['agent_id_hash']) }} as trace_issue_id,
    agent_id_hash,
    period_start,
    issue,
    count(*) as n
from issues
group by
    agent_id_hash,
    period_start,
    issue
