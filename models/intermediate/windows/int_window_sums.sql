{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- Every sum over a window [T - W, T) that needs nothing but a sum (scoring.md §1), and who the agent was at T.
    Grain and key: agent, as-of, window. agent_name is null while the agent has sent no name. -#}
with spine_periods as (

    select
        agent_id_hash,
        period_start,
        as_of,
        span_start
    from {{ ref('int_agent_spine') }}
    where period_start >= {{ windows_from() }}

),

scored_windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start
    from {{ ref('int_scored_windows') }}

),

agent_periods as (

    select
        agent_id_hash,
        period_start,
        {% for counter in window_counters() %}
        {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_agent_periods') }}
    where period_start >= {{ windows_from() }}

),

running_totals as {{ inlined() }}(

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        spine_periods.span_start,
        {% for counter in window_counters() %}
        sum(agent_periods.{{ counter }}) over so_far as {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from spine_periods
    left join agent_periods
        on
            spine_periods.agent_id_hash = agent_periods.agent_id_hash
            and spine_periods.period_start = agent_periods.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash, spine_periods.span_start
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

window_sums as (

    select
        scored_windows.agent_id_hash,
        scored_windows.as_of,
        scored_windows.window_days,
        scored_windows.window_start,
        {% for counter in window_counters() %}
        {{ window_sum(counter, 'at_end', 'at_start') }} as {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from scored_windows
    inner join running_totals as at_end
        on
            scored_windows.agent_id_hash = at_end.agent_id_hash
            and scored_windows.as_of = at_end.as_of
    left join running_totals as at_start
        on
            scored_windows.agent_id_hash = at_start.agent_id_hash
            and scored_windows.window_start = at_start.as_of
            and at_end.span_start = at_start.span_start

),

agents as (

    select
        agent_id_hash,
        first_traced_at
    from {{ ref('int_agents') }}

),

agent_names as (

    select
        agent_id_hash,
        agent_name,
        named_from,
        named_until
    from {{ ref('int_agent_names') }}

)

select
    window_sums.agent_id_hash,
    agent_names.agent_name,
    agents.first_traced_at,
    window_sums.as_of,
    window_sums.window_days,
    window_sums.window_start,
    {% for counter in window_counters() %}
    window_sums.{{ counter }}{% if not loop.last %},{% endif %}
    {% endfor %}
from window_sums
inner join agents on window_sums.agent_id_hash = agents.agent_id_hash
left join agent_names
    on
        window_sums.agent_id_hash = agent_names.agent_id_hash
        and window_sums.as_of > agent_names.named_from
        and (agent_names.named_until is null or window_sums.as_of <= agent_names.named_until)
