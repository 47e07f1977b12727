{{ config(materialized='replace_range', meta={'range': 'period_start'}) }}
{#- Counts of repaired and skipped traces (scoring.md §8). A trace whose agent is missing, blank or oversized is counted
    once, with that issue, whatever else is wrong with it. A trace whose run kind is not scored has the issue mock_trace,
    test_trace or production_trace. An outcome that came too late is not a duplicate;
    int_late_arrivals counts it. Grain: agent (null if the row has none), period and issue. -#}
{%- set is_copy = 'false' if is_trace_one_row() else 'is_duplicate' %}
{%- set is_unscored = 'not is_counted and not is_duplicate' %}
with traces as (

    -- repairs is null if the source row has no agent and nothing else was repaired.
    select
        nullif(agent_id_hash, '') as agent_id_hash,
        period_start,
        case
            when agent_id_hash = '' and (repairs is null or 'blank_agent_id_hash' = any(repairs))
                then array['blank_agent_id_hash']
            when agent_id_hash = '' then array['oversized_id']
            when {{ is_copy }} then array_append(repairs, 'duplicate_trace')
            when {{ is_unscored }} then array_append(repairs, run_kind || '_trace')
            else repairs
        end as issues
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and ({{ is_copy }} or {{ is_unscored }} or repairs is not null)
        -- A trace without an agent that an earlier run has counted at another time, before its outcome arrived.
        and not (agent_id_hash = '' and is_duplicate)

),

issues as (

    select
        traces.agent_id_hash,
        traces.period_start,
        found.issue
    from traces
    cross join lateral unnest(traces.issues) as found (issue)

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
