{{ config(materialized='replace_range', meta={'rewritten': 'whole'}, indexes=[{'columns': ['agent_id_hash']}]) }}
{#- The agents that stand out at the fleet's latest as-of: value against threshold, and how severe that is
    (scoring.md §8; certainty.md §4 for the severity of low_capacity and for falling). Grain and key: agent, window,
    kind. agent_name is null while the agent has sent none. -#}
with scoring_run as (

    select latest_as_of as as_of
    from {{ ref('int_scoring_run') }}

),

scoring_windows as (

    select
        window_days,
        {{ days('window_days') }} as window_length
    from {{ ref('scoring_windows') }}

),

scores as (

    select
        scores.agent_id_hash,
        scores.agent_name,
        scores.as_of,
        scores.window_days,
        scores.window_start,
        scores.capacity_score,
        scores.capacity_score_high
    from {{ ref('fct_capacity_scores') }} as scores
    cross join scoring_run
    where scores.as_of = scoring_run.as_of

),

earlier_scores as (

    select
        scores.agent_id_hash,
        scores.window_days,
        earlier.capacity_score,
        earlier.capacity_score_low
    from scores
    inner join {{ ref('fct_capacity_scores') }} as earlier
        on
            scores.agent_id_hash = earlier.agent_id_hash
            and scores.window_days = earlier.window_days
            and scores.window_start = earlier.as_of

),

chain_components as (

    select
        agent_id_hash,
        as_of,
        window_days,
        chain_gaps,
        chain_rewinds,
        chain_duplicates
    from {{ ref('int_published_components') }}
    where as_of = (select run.as_of from scoring_run as run)

),

low_capacity as (

    select
        agent_id_hash,
        agent_name,
        window_days,
        'low_capacity' as kind,
        case
            when capacity_score_high < {{ scoring_parameter('low_capacity_threshold') }}::double precision
                then 'critical'
            else 'warning'
        end as severity,
        capacity_score as value,
        {{ scoring_parameter('low_capacity_threshold') }}::double precision as threshold,
        format(
            'Capacity %s is below %s%s.',
            {{ shown_score('capacity_score') }},
            {{ scoring_parameter('low_capacity_threshold') }},
            case
                when capacity_score_high < {{ scoring_parameter('low_capacity_threshold') }}::double precision then ''
                else ', which may be noise'
            end
        ) as message
    from scores
    where capacity_score < {{ scoring_parameter('low_capacity_threshold') }}::double precision

),

broken_chain as (

    select
        scores.agent_id_hash,
        scores.agent_name,
        scores.window_days,
        'broken_chain' as kind,
        'critical' as severity,
        (chain.chain_gaps + chain.chain_rewinds + chain.chain_duplicates)::double precision as value,
        0::double precision as threshold,
        format(
            'Audit sequence broken in the last %s days: %s gaps, %s rewinds, %s repeated numbers.',
            scores.window_days,
            chain.chain_gaps,
            chain.chain_rewinds,
            chain.chain_duplicates
        ) as message
    from scores
    inner join chain_components as chain
        on
            scores.agent_id_hash = chain.agent_id_hash
            and scores.window_days = chain.window_days
    where chain.chain_gaps + chain.chain_rewinds + chain.chain_duplicates > 0

),

falls as (

    select
        scores.agent_id_hash,
        scores.agent_name,
        scores.window_days,
        earlier_scores.capacity_score as earlier_score,
        scores.capacity_score,
        {{ capacity_fall('earlier_scores.capacity_score', 'scores.capacity_score') }} as fall,
        {{ least_fall(
            'earlier_scores.capacity_score', 'earlier_scores.capacity_score_low', 'scores.capacity_score',
            'scores.capacity_score_high',
        ) }} as least_fall
    from scores
    inner join earlier_scores
        on
            scores.agent_id_hash = earlier_scores.agent_id_hash
            and scores.window_days = earlier_scores.window_days

),

-- The part of each score that lost most points since one window ago.
greatest_losses as {{ worked_out_once() }}(

    select
        agent_id_hash,
        window_days,
        part
    from {{ ref('fct_score_changes') }}
    where
        as_of = (select run.as_of from scoring_run as run)
        and compared_with = 'window'
        and rank = 1
        and points < 0

),

falling as (

    select
        falls.agent_id_hash,
        falls.agent_name,
        falls.window_days,
        'falling' as kind,
        'warning' as severity,
        falls.fall::double precision as value,
        falls.least_fall::double precision as threshold,
        format(
            'Capacity fell from %s to %s in %s days, by more than chance%s.',
            {{ shown_score('falls.earlier_score') }},
            {{ shown_score('falls.capacity_score') }},
            falls.window_days,
            '. What cost most: ' || {{ named_part('greatest_losses.part') }}
        ) as message
    from falls
    left join greatest_losses
        on
            falls.agent_id_hash = greatest_losses.agent_id_hash
            and falls.window_days = greatest_losses.window_days
    where falls.fall >= falls.least_fall

),

-- Judged for agents without a row too: from their periods, by name and last trace.
activity as (

    select
        periods.agent_id_hash,
        scoring_windows.window_days,
        max(periods.last_traced_at) as last_traced_at,
        sum(periods.n_traces) filter (
            where periods.period_start >= scoring_run.as_of - {{ days(scoring_parameter('silent_days')) }}
        ) as n_recent,
        sum(periods.n_traces) filter (
            where periods.period_start < scoring_run.as_of - {{ days(scoring_parameter('silent_days')) }}
        ) as n_before
    from {{ ref('int_agent_periods') }} as periods
    cross join scoring_run
    cross join scoring_windows
    where
        periods.period_start
        >= scoring_run.as_of - {{ days(scoring_parameter('silent_days')) }} - scoring_windows.window_length
        and periods.period_start < scoring_run.as_of
    group by
        periods.agent_id_hash,
        scoring_windows.window_days

),

silent as (

    select
        activity.agent_id_hash,
        dim_agents.agent_name,
        activity.window_days,
        'silent' as kind,
        'warning' as severity,
        (extract(epoch from scoring_run.as_of - activity.last_traced_at) / 86400)::double precision as value,
        {{ scoring_parameter('silent_days') }}::double precision as threshold,
        format(
            'No trace for %s days, after %s in the %s days before the last %s.',
            round(extract(epoch from scoring_run.as_of - activity.last_traced_at) / 86400, 1),
            activity.n_before,
            activity.window_days,
            {{ scoring_parameter('silent_days') }}
        ) as message
    from activity
    cross join scoring_run
    left join {{ ref('dim_agents') }} as dim_agents on activity.agent_id_hash = dim_agents.agent_id_hash
    where
        coalesce(activity.n_recent, 0) = 0
        and activity.n_before >= {{ scoring_parameter('silent_min_traces') }}

),

alerts as (

    select
        agent_id_hash,
        agent_name,
        window_days,
        kind,
        severity,
        value,
        threshold,
        message
    from low_capacity

    union all

    select
        agent_id_hash,
        agent_name,
        window_days,
        kind,
        severity,
        value,
        threshold,
        message
    from broken_chain

    union all

    select
        agent_id_hash,
        agent_name,
        window_days,
        kind,
        severity,
        value,
        threshold,
        message
    from falling

    union all

    select
        agent_id_hash,
        agent_name,
        window_days,
        kind,
        severity,
        value,
        threshold,
        message
    from silent

)

select
    {{ surrogate_key(['alerts.agent_id_hash', 'alerts.window_days', 'alerts.kind']) }} as capacity_alert_id,
    alerts.agent_id_hash,
    alerts.agent_name,
    scoring_run.as_of,
    alerts.window_days,
    alerts.kind,
    alerts.severity,
    alerts.value,
    alerts.threshold,
    alerts.message,
    dim_agents.agent_label
from alerts
cross join scoring_run
left join {{ ref('dim_agents') }} as dim_agents on alerts.agent_id_hash = dim_agents.agent_id_hash
