{{
  config(
    materialized='replace_range',
    indexes=[{'columns': ['agent_id_hash', 'period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Counts of repaired and refused data (scoring.md §2 to 9), and counts of the ingestion (scoring.md §8). Grain and
    key: agent (null for issues of the fleet and of rows without an agent), period_start (null if the row has no finite
    time), issue. Only late_trace and late_outcome have first_as_of and last_as_of. -#}
with scoring_run as (

    select as_of
    from {{ ref('int_scoring_run') }}

),

trace_issues as (

    select
        agent_id_hash,
        period_start,
        issue,
        n
    from {{ ref('int_trace_issues') }}

),

-- Traces dated before ciris_traces_from. They are never used.
implausible_traces as (

    select
        agent_id_hash,
        {{ period_start('traced_at') }} as period_start,
        'implausible_timestamp' as issue,
        count(*) as n
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        traced_at > '-infinity'
        and traced_at < {{ traces_from() }}
    group by 1, 2

),

-- Traces dated at or after the as-of, which are not used yet, and traces with an infinite time, which are never used.
future_traces as (

    select
        agent_id_hash,
        case when isfinite(traced_at) then {{ period_start('traced_at') }} end as period_start,
        'future_trace' as issue,
        count(*) as n
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        -- The condition also has an upper bound. With a lower bound alone, the planner would expect a third of the
        -- traces to match, and read them all.
        (traced_at >= (select run.as_of from scoring_run as run) and traced_at <= 'infinity')
        or traced_at = '-infinity'
    group by 1, 2

),

deferral_issues as (

    select
        agent_id_hash,
        case when isfinite(created_at) then {{ period_start('created_at') }} end as period_start,
        found.issue,
        count(*) as n
    from {{ ref('int_deferral_values') }}
    cross join lateral unnest(array[
        case when agent_id_hash is null then 'unattributed_deferral' end,
        case when not is_known_status then 'unknown_status' end
    ]) as found (issue)
    where
        (agent_id_hash is null or not is_known_status)
        and found.issue is not null
    group by 1, 2, 3

),

batches as (

    select
        case when isfinite(batch_timestamp) then {{ period_start('batch_timestamp') }} end as period_start,
        traces_received,
        traces_accepted,
        traces_rejected,
        is_out_of_range_traces_received,
        is_out_of_range_traces_accepted,
        is_out_of_range_traces_rejected
    from {{ ref('stg_cirislens__covenant_trace_batches') }}
    where
        batch_timestamp is null
        or not isfinite(batch_timestamp)
        or batch_timestamp < (select run.as_of from scoring_run as run)

),

-- Ingestion counts of the whole fleet. Accepted traces divided by received traces is the acceptance rate.
ingestion as (

    select
        null::text as agent_id_hash,
        batches.period_start,
        counted.issue,
        sum(counted.n) as n
    from batches
    cross join lateral (
        values
        ('ingestion_received', batches.traces_received),
        ('ingestion_accepted', batches.traces_accepted),
        ('ingestion_rejected', batches.traces_rejected),
        ('out_of_range_traces_received', batches.is_out_of_range_traces_received::integer),
        ('out_of_range_traces_accepted', batches.is_out_of_range_traces_accepted::integer),
        ('out_of_range_traces_rejected', batches.is_out_of_range_traces_rejected::integer)
    ) as counted (issue, n)
    where counted.n is not null
        and (counted.n > 0 or counted.issue not like 'out_of_range%')
    group by
        batches.period_start,
        counted.issue

),

all_issues as (

    {% for issues in ['trace_issues', 'implausible_traces', 'future_traces', 'deferral_issues', 'ingestion'] %}
    select
        agent_id_hash,
        period_start,
        issue,
        n,
        null::timestamptz as first_as_of,
        null::timestamptz as last_as_of
    from {{ issues }}
    union all
    {% endfor %}
    select
        agent_id_hash,
        period_start,
        issue,
        n,
        first_as_of,
        last_as_of
    from {{ ref('int_late_arrivals') }}

),

counted as (

    select
        agent_id_hash,
        period_start,
        issue,
        sum(n)::bigint as n,
        min(first_as_of) as first_as_of,
        max(last_as_of) as last_as_of
    from all_issues
    group by
        agent_id_hash,
        period_start,
        issue

)

select
    {{ surrogate_key(['counted.issue'], nullable=['counted.agent_id_hash', epoch('counted.period_start')]) }}
    as data_quality_id,
    counted.agent_id_hash,
    counted.period_start,
    counted.issue,
    counted.n,
    counted.first_as_of,
    counted.last_as_of,
    agents.agent_label
from counted
left join {{ ref('int_agents') }} as agents on counted.agent_id_hash = agents.agent_id_hash
