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
        scores.capacity_score,
        scores.capacity_score_high,
        scores.chain_gaps,
        scores.chain_rewinds,
        scores.chain_duplicates
    from {{ ref('fct_capacity_scores') }} as scores
    cross join scoring_run
    where scores.as_of = scoring_run.as_of

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
        agent_id_hash,
        agent_name,
        window_days,
        'broken_chain' as kind,
        'critical' as severity,
        (chain_gaps + chain_rewinds + chain_duplicates)::double precision as value,
        0::double precision as threshold,
        format(
            'Audit sequence broken in the last %s days: %s gaps, %s rewinds, %s repeated numbers.',
            window_days,
            chain_gaps,
            chain_rewinds,
            chain_duplicates
        ) as message
    from scores
    where chain_gaps + chain_rewinds + chain_duplicates > 0

),

-- What a window is held against: the one before it, and a week against the 30 days before it.
comparisons as (

    select
        scoring_windows.window_days,
        scoring_windows.window_days as earlier_window_days,
        scoring_run.as_of,
        scoring_run.as_of - scoring_windows.window_length as earlier_as_of
    from scoring_windows
    cross join scoring_run

    union all

    select
        weeks.window_days,
        months.window_days as earlier_window_days,
        scoring_run.as_of,
        scoring_run.as_of - weeks.window_length as earlier_as_of
    from scoring_windows as weeks
    inner join scoring_windows as months on months.window_days = 30
    cross join scoring_run
    where weeks.window_days = 7

),

compared_scores as (

    select
        scores.agent_id_hash,
        scores.as_of,
        scores.agent_name,
        scores.window_days,
        scores.score_status,
        scores.unmeasured_components,
        {% for part in parts_of_behaviour() %}
        scores.{{ part }},
        scores.{{ part }}_low,
        scores.{{ part }}_high{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_capacity_scores') }} as scores
    where
        scores.capacity_score is not null
        and scores.as_of in (
            select as_of from comparisons
            union all
            select earlier_as_of from comparisons
        )

),

changes as (

    select
        later.agent_id_hash,
        later.agent_name,
        comparisons.window_days,
        comparisons.earlier_window_days,
        parts.part,
        parts.part_order,
        parts.loss_before,
        parts.loss_now,
        parts.loss_now - parts.loss_before as loss_change,
        {{ variance_of_loss_change(
            'parts.loss_before', 'parts.worse_before', 'parts.loss_now', 'parts.better_now',
        ) }} as variance
    from comparisons
    inner join compared_scores as later
        on
            comparisons.as_of = later.as_of
            and comparisons.window_days = later.window_days
    inner join compared_scores as earlier
        on
            later.agent_id_hash = earlier.agent_id_hash
            and comparisons.earlier_as_of = earlier.as_of
            and comparisons.earlier_window_days = earlier.window_days
    cross join lateral unnest(
        array[
            {% for part in parts_of_behaviour() %}
            '{{ part }}'{% if not loop.last %},{% endif %}
            {% endfor %}
        ],
        {% for score, which in [('earlier', 'value'), ('earlier', 'worse'), ('later', 'value'), ('later', 'better')] %}
        array[
            {% for part in parts_of_behaviour() %}
            {{ behaviour_loss(part, score ~ '.' ~ behaviour_column(part, which)) }}{% if not loop.last %},{% endif %}
            {% endfor %}
        ]{% if not loop.last %},{% endif %}
        {% endfor %}
    ) with ordinality as parts (part, loss_before, worse_before, loss_now, better_now, part_order)
    where
        earlier.score_status <> 'provisional'
        and parts.part <> all(earlier.unmeasured_components || later.unmeasured_components)
        and (parts.part <> 'delta_drift' or comparisons.window_days = comparisons.earlier_window_days)

),

falls as (

    select
        agent_id_hash,
        agent_name,
        window_days,
        earlier_window_days,
        exp(-sum(loss_before)) as kept_before,
        exp(-sum(loss_now)) as kept_now,
        sum(loss_change) >= {{ falling_z('together') }} * sqrt(sum(variance)) as together,
        bool_or(loss_change > 0.02 and loss_change >= {{ falling_z('alone') }} * sqrt(variance)) as alone,
        (array_agg(part order by loss_change desc, part_order asc))[1] as greatest_part
    from changes
    group by
        agent_id_hash,
        agent_name,
        window_days,
        earlier_window_days
    having count(variance) = count(*)

),

falling as (

    select distinct on (agent_id_hash, window_days)
        agent_id_hash,
        agent_name,
        window_days,
        'falling' as kind,
        'warning' as severity,
        kept_before - kept_now as value,
        ({{ scoring_parameter('falling_threshold') }}::numeric / 3)::double precision as threshold,
        format(
            'Capacity without episodes and deferrals is lower than in the %s before, by more than chance: %s after %s. '
            'What cost most: %s.',
            case earlier_window_days when 7 then 'week' when 30 then 'month' else earlier_window_days || ' days' end,
            {{ shown_score('kept_now') }},
            {{ shown_score('kept_before') }},
            {{ named_part('greatest_part') }}
        ) as message
    from falls
    where
        (together or alone)
        and kept_before - kept_now >= ({{ scoring_parameter('falling_threshold') }}::numeric / 3)::double precision
    order by
        agent_id_hash,
        window_days,
        earlier_window_days

),

episode as (

    select
        scores.agent_id_hash,
        scores.agent_name,
        scores.window_days,
        'episode' as kind,
        'warning' as severity,
        worse_events.value,
        worse_events.value_before as threshold,
        worse_events.message
    from scores
    inner join {{ ref('int_worse_events') }} as worse_events using (agent_id_hash, window_days)

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

    {% for kind in ['low_capacity', 'broken_chain', 'falling', 'episode', 'silent'] %}
    select
        agent_id_hash,
        agent_name,
        window_days,
        kind,
        severity,
        value,
        threshold,
        message
    from {{ kind }}
    {% if not loop.last %}union all{% endif %}
    {% endfor %}

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
