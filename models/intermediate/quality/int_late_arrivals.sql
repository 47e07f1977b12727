{{ config(materialized='ephemeral') }}
{#- What came when the scores of its period were final already (scoring.md §9), and the as-ofs whose scores it would
    change: from the period's end on, for as long as any score remembers it. A step of fct_data_quality.
    Grain: one row per agent (null: nobody), period and issue, late_trace or late_key. -#}
{%- set late_until = lookback_from() -%}
{%- set late_from = late_until ~ ' - ' ~ setting('late_detection_periods') ~ ' * ' ~ period_length() -%}
with scoring_run as (

    select
        latest_as_of,
        longest_memory
    from {{ ref('int_scoring_run') }}

),

-- Rows of the source by agent and period. An index on agent and time is enough, so that no row is read.
source_counts as (

    select
        agent_id_hash,
        {{ period_start('traced_at') }} as period_start,
        count(*) as n
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        traced_at >= {{ late_from }}
        and traced_at < {{ late_until }}
        and traced_at >= {{ traces_from() }}
    group by 1, 2

),

-- Those that were judged: they count, were delivered before, or have no agent.
judged_counts as (

    select
        agent_id_hash,
        period_start,
        n_traces as n
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ late_from }}
        and period_start < {{ late_until }}

    union all

    select
        agent_id_hash,
        period_start,
        n
    from {{ ref('int_trace_issues') }}
    where
        issue = 'duplicate_trace'
        and period_start >= {{ late_from }}
        and period_start < {{ late_until }}

    union all

    select
        null::text as agent_id_hash,
        period_start,
        1 as n
    from {{ ref('int_traces_without_agent') }}
    where
        traced_at >= {{ late_from }}
        and traced_at < {{ late_until }}

),

differences as (

    select
        agent_id_hash,
        period_start,
        n as n_more
    from source_counts

    union all

    select
        agent_id_hash,
        period_start,
        -n as n_more
    from judged_counts

),

-- Rows that the source has by now and the verdicts, final before the lookback, do not (scoring.md, section 9).
late_traces as (

    select
        agent_id_hash,
        period_start,
        sum(n_more) as n
    from differences
    group by
        agent_id_hash,
        period_start
    having sum(n_more) > 0

),

public_keys as (

    select
        {{ key_hash('key_id') }} as key_hash,
        {{ registered_until() }} as registered_until
    from {{ ref('stg_cirislens__covenant_public_keys') }}
    where key_id is not null
    group by key_id

),

-- The keys of an agent's period, and whether its verdicts took them to be registered.
judged_keys as (

    select
        periods.agent_id_hash,
        periods.period_start,
        substr(judged.key, 2)::bigint as key_hash,
        left(judged.key, 1)::boolean as is_key_registered
    from {{ ref('int_agent_periods') }} as periods
    cross join lateral string_to_table(periods.judged_keys, ',') as judged (key)
    where
        periods.period_start >= {{ late_from }}
        and periods.period_start < {{ late_until }}

),

-- Those that the registry has otherwise by now, at some time of the period: next to none.
doubtful_keys as (

    select
        judged_keys.agent_id_hash,
        judged_keys.period_start,
        judged_keys.key_hash,
        judged_keys.is_key_registered,
        public_keys.registered_until
    from judged_keys
    left join public_keys on judged_keys.key_hash = public_keys.key_hash
    where
        case
            when not judged_keys.is_key_registered then public_keys.registered_until > judged_keys.period_start
            else (public_keys.registered_until >= judged_keys.period_start + {{ period_length() }}) is not true
        end

),

-- Traces whose verdict on their key, final before the lookback, would be another one by now. Fenced, so that verdicts
-- are looked up by agent and time, whatever the planner expects.
late_keys as (

    select
        doubtful_keys.agent_id_hash,
        doubtful_keys.period_start,
        count(*) as n
    from doubtful_keys
    cross join lateral (
        select
            verdicts.traced_at,
            verdicts.is_key_registered
        from {{ ref('int_trace_verdicts') }} as verdicts
        where
            verdicts.agent_id_hash = doubtful_keys.agent_id_hash
            and verdicts.traced_at >= doubtful_keys.period_start
            and verdicts.traced_at < doubtful_keys.period_start + {{ period_length() }}
            and verdicts.key_hash = doubtful_keys.key_hash
            and verdicts.is_key_registered = doubtful_keys.is_key_registered
            and verdicts.is_counted
        {{ fence() }} -- noqa: AM09
    ) as signed
    where
        {{ is_key_registered('doubtful_keys.registered_until', 'signed.traced_at') }} <> signed.is_key_registered
    group by
        doubtful_keys.agent_id_hash,
        doubtful_keys.period_start

),

arrivals as (

    select
        agent_id_hash,
        period_start,
        'late_trace' as issue,
        n
    from late_traces

    union all

    select
        agent_id_hash,
        period_start,
        'late_key' as issue,
        n
    from late_keys

)

select
    arrivals.agent_id_hash,
    arrivals.period_start,
    arrivals.issue,
    arrivals.n,
    arrivals.period_start + {{ period_length() }} as first_as_of,
    least(arrivals.period_start + scoring_run.longest_memory, scoring_run.latest_as_of) as last_as_of
from arrivals
cross join scoring_run
