{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
  )
}}
{#- As-ofs at which an agent is silent (scoring.md §1 and §8): it has sent no trace for the shortest window or for
    silent_days, whichever is shorter. The silence ends by a trace, when the agent is retired, or silent_forget_days
    after the last trace. Grain and key: agent, as-of. No column is null. -#}
{%- set period = period_length() %}
with agents as (

    select agent_id_hash
    from {{ ref('int_agents') }}

),

-- Periods of the run, and the last period of each agent before them, because a silence may have begun before the run.
periods as (

    select
        agent_id_hash,
        period_start,
        last_traced_at
    from {{ ref('int_agent_periods') }}
    where period_start >= {{ cutoff() }} and period_start < {{ run_as_of() }}

    union all

    select
        agents.agent_id_hash,
        earlier.period_start,
        earlier.last_traced_at
    from agents
    cross join lateral (
        select
            int_agent_periods.period_start,
            int_agent_periods.last_traced_at
        from {{ ref('int_agent_periods') }} as int_agent_periods
        where
            int_agent_periods.agent_id_hash = agents.agent_id_hash
            and int_agent_periods.period_start < {{ cutoff() }}
        order by int_agent_periods.period_start desc
        limit 1
    ) as earlier

),

silences as (

    select
        agent_id_hash,
        last_traced_at,
        period_start + {{ period }} as silent_from,
        lead(period_start, 1, {{ run_as_of() }}) over (partition by agent_id_hash order by period_start) as silent_until
    from periods

),

shortest_silence as (

    select least(min(window_days), {{ scoring_parameter('silent_days') }}) as silence_days
    from {{ ref('scoring_windows') }}

),

bounded as (

    select
        silences.agent_id_hash,
        silences.last_traced_at,
        silences.silent_from,
        greatest(
            silences.silent_from + {{ days('shortest_silence.silence_days') }},
            {{ cutoff() }} + {{ period }}
        ) as first_as_of,
        least(
            silences.silent_until,
            {{ period_start('silences.last_traced_at + ' ~ days(scoring_parameter('silent_forget_days'))) }}
        ) as last_as_of
    from silences
    cross join shortest_silence

),

silent as (

    select
        bounded.agent_id_hash,
        {{ nth_period('bounded.first_as_of', 'nth.n') }} as as_of,
        bounded.silent_from,
        bounded.last_traced_at
    from bounded
    cross join lateral {{ each_period('bounded.first_as_of', 'bounded.last_as_of') }} as nth (n)

)

select
    silent.agent_id_hash,
    silent.as_of,
    silent.silent_from,
    silent.last_traced_at
from silent
left join {{ ref('retired_agents') }} as retired_agents on silent.agent_id_hash = retired_agents.agent_id_hash
where
    retired_agents.retired_at is null
    or silent.as_of < retired_agents.retired_at
    or silent.last_traced_at >= retired_agents.retired_at
