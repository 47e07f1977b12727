{{ config(materialized='replace_range', meta={'range': 'period_start'}) }}
{#- Counts of repaired and skipped traces (scoring.md §8). A trace whose agent is missing, blank or oversized is counted
    once, with that issue, whatever else is wrong with it. A trace whose run kind is not scored has the issue mock_trace,
    test_trace or production_trace. An outcome that came too late is not a duplicate;
    int_late_arrivals counts it. Grain: agent (null if the row has none), period and issue. -#}
{%- set is_copy = 'false' if is_trace_one_row() else 'is_duplicate' %}
{%- set is_unscored = 'not is_counted and not is_duplicate' %}
with traces as (

    select
        agent_id_hash,
        period_start,
        case
            when {{ is_copy }} then array_append(repairs, 'duplicate_trace')
            when {{ is_unscored }} then array_append(repairs, run_kind || '_trace')
            else repairs
        end as issues
    from {{ ref('int_trace_checks') }}
    where
        {{ in_checked_range('traced_at') }}
        and ({{ is_copy }} or {{ is_unscored }} or repairs is not null)

    union all

    -- repairs is null if the source row has no agent and nothing else was repaired.
    select
        traces.agent_id_hash,
        traces.period_start,
        case
            when traces.repairs is null or 'blank_agent_id_hash' = any(traces.repairs) then array['blank_agent_id_hash']
            else array['oversized_id']
        end as issues
    from {{ ref('int_traces_without_agent') }} as traces
    where
        {{ in_checked_range('traces.traced_at') }}
        {% if is_trace_one_row() %}
        -- Skip a trace that an earlier run has counted at another time, before its outcome arrived.
        and not exists (
            select 1
            from {{ ref('int_traces_without_agent') }} as earlier
            where
                earlier.trace_id = traces.trace_id
                and earlier.traced_at < {{ rechecked_from() }}
        )
        {% endif %}

),

issues as (

    select
        nullif(traces.agent_id_hash, '') as agent_id_hash,
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
