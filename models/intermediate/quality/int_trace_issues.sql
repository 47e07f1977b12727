{{ config(materialized='replace_range', meta={'range': 'period_start'}) }}
{#- Counts of repaired and skipped traces (scoring.md §8). A trace whose agent is missing, blank or oversized is counted
    once, with that issue, whatever else is wrong with it. An outcome that came too late is not a duplicate;
    int_late_arrivals counts it. Grain: agent (null without one), period and issue. -#}
with traces as (

    select
        case when not {{ is_nobodys('verdicts') }} then verdicts.agent_id_hash end as agent_id_hash,
        verdicts.period_start,
        case
            {% if not is_trace_one_row() %}
            when verdicts.is_duplicate then array_append(verdicts.repairs, 'duplicate_trace')
            {% endif %}
            when not {{ is_nobodys('verdicts') }} then verdicts.repairs
            -- A missing agent is not a repair, so repairs may be null here.
            when verdicts.repairs is null or 'blank_agent_id_hash' = any(verdicts.repairs)
                then array['blank_agent_id_hash']
            else array['oversized_id']
        end as issues
    from {{ ref('int_trace_verdicts') }} as verdicts
    where
        {{ in_judged_range('verdicts.traced_at') }}
        and (verdicts.is_duplicate or verdicts.repairs is not null or {{ is_nobodys('verdicts') }})
        {% if is_trace_one_row() %}
        -- Skips traces that an earlier run counted before their outcome came. A scalar subquery, because PostgreSQL
        -- would hash all older rows for `exists`.
        and case
            when {{ is_nobodys('verdicts') }}
                then (
                    select true
                    from {{ ref('int_trace_verdicts') }} as earlier
                    where
                        earlier.delivery_hash = verdicts.delivery_hash
                        and earlier.agent_id_hash = verdicts.agent_id_hash
                        and earlier.trace_id = verdicts.trace_id
                        and earlier.traced_at < {{ rejudged_from() }}
                    limit 1
                )
        end is not true
        {% endif %}

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
