{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- A digest of everything that the limits of an as-of and window are made from (certainty.md §3). All agents share
    it: the limits of each depend on the fleet's correlations at that as-of, and these on each agent's sums over the
    longest memory. The Python step computes the as-ofs whose digest it does not find among the fleet's stored values.
    Grain and key: as-of and window with a scored agent. Nothing is null. -#}
{%- set step_parameters = interval_step_parameters() -%}
with scored_windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        baseline_start,
        coherence_days,
        least(baseline_start, window_start - {{ days('coherence_days') }}) as memory_start
    from {{ ref('int_scored_windows') }}

),

-- The ends of periods at which a memory of this run begins or ends: only totals there are looked up again.
memory_edges as (

    select distinct edges.edge
    from scored_windows
    cross join lateral (
        values (scored_windows.as_of), (scored_windows.memory_start)
    ) as edges (edge)

),

spine_periods as (

    select
        spine.agent_id_hash,
        spine.period_start,
        spine.as_of,
        spine.span_start,
        memory_edges.edge is not null as is_memory_edge
    from {{ ref('int_agent_spine') }} as spine
    left join memory_edges on spine.as_of = memory_edges.edge

),

interval_periods as (

    select
        agent_id_hash,
        period_start,
        sums_hash
    from {{ ref('int_interval_periods') }}
    where period_start >= {{ read_from() }}

),

resilience_inputs as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_recoveries,
        n_open_episodes,
        inputs_digest
    from {{ ref('int_resilience_inputs') }}
    where {{ in_scored_range('as_of') }}

),

deferrals as (

    select
        agent_id_hash,
        as_of,
        window_days,
        q_deferral,
        n_judged_deferrals
    from {{ ref('int_incompleteness_awareness') }}
    where {{ in_scored_range('as_of') }}

),

running_totals as (

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        spine_periods.span_start,
        spine_periods.is_memory_edge,
        sum(interval_periods.sums_hash) over so_far as sums_hash
    from spine_periods
    left join interval_periods
        on
            spine_periods.agent_id_hash = interval_periods.agent_id_hash
            and spine_periods.period_start = interval_periods.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash, spine_periods.span_start
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

totals_at_edges as (

    select *
    from running_totals
    where is_memory_edge

),

row_hashes as (

    select
        scored_windows.as_of,
        scored_windows.window_days,
        hashtextextended(concat_ws(
            '|',
            resilience_inputs.inputs_digest,
            resilience_inputs.n_recoveries,
            resilience_inputs.n_open_episodes,
            deferrals.q_deferral,
            deferrals.n_judged_deferrals,
            {{ epoch('scored_windows.baseline_start') }},
            scored_windows.coherence_days,
            {{ window_sum('sums_hash', 'at_end', 'at_start') }},
            scored_windows.agent_id_hash
        ), 0) as row_hash
    from scored_windows
    inner join resilience_inputs
        on
            scored_windows.agent_id_hash = resilience_inputs.agent_id_hash
            and scored_windows.as_of = resilience_inputs.as_of
            and scored_windows.window_days = resilience_inputs.window_days
    inner join deferrals
        on
            scored_windows.agent_id_hash = deferrals.agent_id_hash
            and scored_windows.as_of = deferrals.as_of
            and scored_windows.window_days = deferrals.window_days
    inner join totals_at_edges as at_end
        on
            scored_windows.agent_id_hash = at_end.agent_id_hash
            and scored_windows.as_of = at_end.as_of
    left join totals_at_edges as at_start
        on
            scored_windows.agent_id_hash = at_start.agent_id_hash
            and scored_windows.memory_start = at_start.as_of
            and at_end.span_start = at_start.span_start

)

select
    as_of,
    window_days,
    count(*)::integer as n_agents,
    md5(concat_ws('|', '{{ step_parameters }}', count(*), sum(row_hash))) as inputs_digest,
    '{{ step_parameters }}'::text as step_parameters
from row_hashes
group by
    as_of,
    window_days
