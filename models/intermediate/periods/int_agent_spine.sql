{{
  config(
    materialized='table',
    post_hook="analyze {{ this }} (agent_id_hash, window_days, period_start, as_of, is_to_be_scored)",
  )
}}
{#- Grain: one row per agent, window and period, without gaps from the agent's first period (or as far back as this
    run's windows reach) to the run's as-of. Silent periods count, so every running total has a row to stand on. -#}
with scoring_run as (

    select
        as_of,
        cutoff,
        cutoff - longest_memory as read_from
    from {{ ref('int_scoring_run') }}

),

scoring_windows as (

    select
        window_days,
        baseline_days,
        coherence_days
    from {{ ref('scoring_windows') }}

),

agents as (

    select
        agent_id_hash,
        min(period_start) as first_period_start
    from {{ ref('int_identity_events') }}
    where is_first_trace
    group by agent_id_hash

),

agent_periods as (

    select
        agents.agent_id_hash,
        periods.period_start,
        periods.period_start + {{ period_length() }} as as_of
    from agents
    cross join scoring_run
    cross join lateral generate_series(
        greatest(agents.first_period_start, scoring_run.read_from),
        scoring_run.as_of - {{ period_length() }},
        {{ period_length() }}
    ) as periods (period_start)

)

select
    md5(concat_ws(
        '|',
        agent_periods.agent_id_hash,
        extract(epoch from agent_periods.as_of),
        scoring_windows.window_days
    )) as agent_spine_id,
    agent_periods.agent_id_hash,
    scoring_windows.window_days,
    agent_periods.period_start,
    agent_periods.as_of,
    agent_periods.as_of - {{ days('scoring_windows.window_days') }} as window_start,
    {{ days_in_periods('scoring_windows.window_days') }} as window_periods,
    {{ days_in_periods('scoring_windows.baseline_days') }} as baseline_periods,
    {{ days_in_periods('scoring_windows.coherence_days') }} as coherence_periods,
    agent_periods.as_of > scoring_run.cutoff as is_to_be_scored
from agent_periods
cross join scoring_windows
cross join scoring_run
