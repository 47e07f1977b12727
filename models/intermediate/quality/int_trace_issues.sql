{{ config(materialized='replace_range', meta={'judged_range': 'period_start'}) }}
{#- Grain: one row per agent, period and issue: repairs of traces, and traces set aside (scoring.md §8). Of a
    trace whose agent is missing, blank or oversized only that and an oversized trace_id are counted, whatever else was
    wrong with it. -#}
with traces as (

    select
        agent_id_hash,
        period_start,
        case when is_duplicate then array_append(repairs, 'duplicate_trace') else repairs end as issues
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and (is_duplicate or repairs is not null)

    union all

    -- A missing agent alone is no repair, so such a row may have none.
    select
        agent_id_hash,
        period_start,
        coalesce(repairs, array['blank_agent_id_hash']) as issues
    from {{ ref('int_traces_without_agent') }}
    where {{ in_judged_range('traced_at') }}

),

issues as (

    select
        nullif(traces.agent_id_hash, '') as agent_id_hash,
        traces.period_start,
        found.issue
    from traces
    cross join lateral unnest(traces.issues) as found (issue)
    where
        traces.agent_id_hash <> ''
        or found.issue in ('blank_agent_id_hash', 'oversized_id')

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
