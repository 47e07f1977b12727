{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'as_of', 'range_opens': '>'},
    indexes=[{'columns': ['as_of', 'window_days', 'agent_id_hash']}, {'columns': ['agent_id_hash', 'window_days', 'as_of']}],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    post_hook="{{ update_statistics() }}",
  )
}}
{#- Grain: one row per agent, as-of and window with at least one trace in the window: the rows that get a score, and
    every sum over the window that needs nothing but a sum. -#}
with spine_periods as (

    select distinct
        agent_id_hash,
        period_start,
        as_of
    from {{ ref('int_agent_spine') }}
    where period_start >= {{ windows_from() }}

),

spine as (

    select
        agent_spine_id,
        agent_id_hash,
        window_days,
        as_of,
        window_start,
        window_periods
    from {{ ref('int_agent_spine') }}
    where is_to_be_scored

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

running_totals as (

    select
        spine_periods.agent_id_hash,
        spine_periods.as_of,
        {% for counter in window_counters() %}
        sum(agent_periods.{{ counter }}) over so_far as {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from spine_periods
    left join agent_periods
        on
            spine_periods.agent_id_hash = agent_periods.agent_id_hash
            and spine_periods.period_start = agent_periods.period_start
    window so_far as (
        partition by spine_periods.agent_id_hash
        order by spine_periods.as_of
        rows between unbounded preceding and current row
    )

),

window_sums as (

    select
        spine.agent_spine_id as window_sums_id,
        spine.agent_id_hash,
        spine.as_of,
        spine.window_days,
        spine.window_start,
        {% for counter in window_counters() %}
        {{ window_sum(counter, 'at_end', 'at_start') }} as {{ counter }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from spine
    inner join running_totals as at_end
        on
            spine.agent_id_hash = at_end.agent_id_hash
            and spine.as_of = at_end.as_of
    left join running_totals as at_start
        on
            spine.agent_id_hash = at_start.agent_id_hash
            and spine.as_of - spine.window_periods * {{ period_length() }} = at_start.as_of

),

identity_events as (

    select
        agent_id_hash,
        traced_at,
        audit_sequence_number,
        trace_id,
        period_start,
        is_first_trace,
        is_first_name or is_identity_change as is_naming,
        agent_name
    from {{ ref('int_identity_events') }}

),

first_traces as (

    select
        agent_id_hash,
        min(traced_at) as first_traced_at
    from identity_events
    where is_first_trace
    group by agent_id_hash

),

-- The name an agent ended a period with, and the next period that ended with another.
names as (

    select
        agent_id_hash,
        agent_name,
        period_start,
        lead(period_start) over (
            partition by agent_id_hash
            order by period_start
        ) as next_period_start
    from (
        select distinct on (agent_id_hash, period_start)
            agent_id_hash,
            period_start,
            agent_name
        from identity_events
        where is_naming
        order by
            agent_id_hash asc,
            period_start asc,
            traced_at desc,
            audit_sequence_number desc nulls first,
            trace_id collate "C" desc nulls first
    ) as last_names

)

select
    window_sums.window_sums_id,
    window_sums.agent_id_hash,
    names.agent_name,
    first_traces.first_traced_at,
    window_sums.as_of,
    window_sums.window_days,
    window_sums.window_start,
    {% for counter in window_counters() %}
    window_sums.{{ counter }}{% if not loop.last %},{% endif %}
    {% endfor %}
from window_sums
inner join first_traces on window_sums.agent_id_hash = first_traces.agent_id_hash
left join names
    on
        window_sums.agent_id_hash = names.agent_id_hash
        and window_sums.as_of > names.period_start
        and (names.next_period_start is null or window_sums.as_of <= names.next_period_start)
where window_sums.n_traces > 0
