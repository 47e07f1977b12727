{{ config(materialized='replace_range', meta={'rewritten': 'anew'}) }}
{#- Every period at which a window of some score may end: from a period with a trace to the last as-of whose windows
    hold it, without gaps. Where an agent was silent for longer than any score remembers, a new span begins: years of
    silence cost nothing.
    Grain and key: agent, period. Nothing is null. -#}
with scoring_run as (

    select
        as_of,
        longest_window,
        longest_memory
    from {{ ref('int_scoring_run') }}

),

traced_periods as (

    select
        agent_id_hash,
        period_start,
        lag(period_start) over by_time as previous_period_start,
        lead(period_start) over by_time as next_period_start
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ read_from() }}
        and period_start < {{ as_of() }}
    window by_time as (partition by agent_id_hash order by period_start)

),

-- From each period with a trace to the one before the next, or to the last whose end has a window that holds it.
stretches as (

    select
        traced_periods.agent_id_hash,
        traced_periods.period_start,
        case
            when
                traced_periods.previous_period_start is null
                or traced_periods.period_start - traced_periods.previous_period_start >= scoring_run.longest_memory
                then traced_periods.period_start
        end as span_start,
        case
            when traced_periods.next_period_start - traced_periods.period_start < scoring_run.longest_memory
                then traced_periods.next_period_start
            else least(traced_periods.period_start + scoring_run.longest_window, scoring_run.as_of)
        end as stretch_end
    from traced_periods
    cross join scoring_run

),

spans as (

    select
        agent_id_hash,
        period_start,
        stretch_end,
        max(span_start) over (
            partition by agent_id_hash
            order by period_start
            rows between unbounded preceding and current row
        ) as span_start
    from stretches

)

select
    spans.agent_id_hash,
    {{ nth_period('spans.period_start', 'nth.n') }} as period_start,
    {{ nth_period('spans.period_start', '(nth.n + 1)') }} as as_of,
    spans.span_start,
    spans.period_start as last_traced_period_start
from spans
cross join lateral {{ each_period('spans.period_start', 'spans.stretch_end') }} as nth (n)
where {{ nth_period('spans.period_start', 'nth.n') }} < spans.stretch_end
