{{ config(materialized='replace_range', meta={'rewritten': 'anew'}) }}
{#- Every period at which a window of some score may end: from a period with a trace to the next one, or to the last
    as-of whose windows hold it. Years of silence cost nothing. Grain and key: agent, period. Nothing is null. -#}
with scoring_run as (

    select
        as_of,
        longest_window
    from {{ ref('int_scoring_run') }}

),

traced_periods as (

    select
        agent_id_hash,
        period_start,
        lead(period_start) over (partition by agent_id_hash order by period_start) as next_period_start
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ windows_from() }}
        and period_start < {{ run_as_of() }}

),

stretches as (

    select
        traced_periods.agent_id_hash,
        traced_periods.period_start,
        least(
            traced_periods.next_period_start,
            traced_periods.period_start + scoring_run.longest_window,
            scoring_run.as_of
        ) as stretch_end
    from traced_periods
    cross join scoring_run

)

select
    stretches.agent_id_hash,
    {{ nth_period('stretches.period_start', 'nth.n') }} as period_start,
    {{ nth_period('stretches.period_start', '(nth.n + 1)') }} as as_of,
    stretches.period_start as last_traced_period_start
from stretches
cross join lateral {{ each_period('stretches.period_start', 'stretches.stretch_end') }} as nth (n)
where {{ nth_period('stretches.period_start', 'nth.n') }} < stretches.stretch_end
