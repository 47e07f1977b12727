{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['agent_id_hash']}],
  )
}}
{#- The agents that stand out at the as-ofs of the run: value against threshold, and how severe that is (scoring.md §8;
    certainty.md §4 for the severity of low_capacity, for falling and for episode). Judged before the scores are published,
    whose verdicts need them. Grain and key: agent, as-of, window, kind. agent_name is null while the agent has sent
    none. -#}
-- depends_on: {{ ref('int_scoring_run') }}
with scoring_windows as (

    select
        window_days,
        {{ days('window_days') }} as window_length
    from {{ ref('scoring_windows') }}

),

factors as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        n_traces,
        capacity_score_high,
        {{ factor_columns() }}
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

scores as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        case
            when n_traces >= {{ scoring_parameter('min_traces') }}
                then {{ capacity_score('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }}
        end as capacity_score,
        capacity_score_high,
        chain_gaps,
        chain_rewinds,
        chain_duplicates
    from factors

),

low_capacity as (

    select
        agent_id_hash,
        agent_name,
        as_of,
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
        as_of,
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

-- What a window is held against, and by how many standard deviations it has to be worse: the one before it, and a week
-- against the 30 days before it.
comparisons as (

    select
        window_days,
        window_days as earlier_window_days,
        window_length,
        {{ scoring_parameter('falling_z_together') }} as z_together,
        {{ scoring_parameter('falling_z_alone') }} as z_alone
    from scoring_windows

    union all

    select
        weeks.window_days,
        months.window_days as earlier_window_days,
        weeks.window_length,
        {{ scoring_parameter('falling_month_z_together') }} as z_together,
        {{ scoring_parameter('falling_month_z_alone') }} as z_alone
    from scoring_windows as weeks
    inner join scoring_windows as months on months.window_days = 30
    where weeks.window_days = 7

),

-- Of rows with a score, those of earlier runs as well. Read twice: materialized, it would be the whole history.
behaviour as not materialized (

    select
        agent_id_hash,
        as_of,
        window_days,
        behaviour_loss,
        behaviour_worse_sd,
        behaviour_better_sd
    from {{ ref('int_windows') }}
    where capacity_score_low is not null

),

-- Of each score what it kept without episodes and deferrals, now and before, and by which parts it lost.
falls as (

    select
        scores.agent_id_hash,
        scores.agent_name,
        scores.as_of,
        comparisons.window_days,
        comparisons.earlier_window_days,
        changed.kept_before,
        changed.kept_now,
        changed.together,
        changed.alone,
        changed.greatest_part
    from scores
    inner join comparisons using (window_days)
    inner join {{ ref('int_agents') }} as agents using (agent_id_hash)
    inner join behaviour as later using (agent_id_hash, as_of, window_days)
    cross join lateral {{ scored_row(
        'behaviour', 'scores.agent_id_hash', 'scores.as_of - comparisons.window_length', 'comparisons.earlier_window_days'
    ) }} as earlier
    cross join lateral (
        select
            exp(-sum(changes.loss_before)) as kept_before,
            exp(-sum(changes.loss_now)) as kept_now,
            sum(changes.loss_change) >= comparisons.z_together * sqrt(sum(changes.variance)) as together,
            bool_or(
                changes.loss_change > 0.02 and changes.loss_change >= comparisons.z_alone * sqrt(changes.variance)
            ) as alone,
            (array_agg(changes.part order by changes.loss_change desc, changes.part_order asc))[1] as greatest_part
        from (
            select
                parts.part,
                parts.part_order,
                parts.loss_before,
                parts.loss_now,
                parts.loss_now - parts.loss_before as loss_change,
                parts.worse_sd ^ 2 + parts.better_sd ^ 2 as variance
            from unnest(
                '{ {{- components_with_design_effect() | join(',') -}} }'::text[],
                earlier.behaviour_loss,
                earlier.behaviour_worse_sd,
                later.behaviour_loss,
                later.behaviour_better_sd
            ) with ordinality as parts (part, loss_before, worse_sd, loss_now, better_sd, part_order)
            where
                num_nulls(parts.loss_before, parts.loss_now) = 0
                and (parts.part <> 'delta_drift' or comparisons.window_days = comparisons.earlier_window_days)
        ) as changes
    ) as changed
    -- The earlier score is not provisional.
    where
        agents.first_traced_at
        <= earlier.as_of - {{ days('earlier.window_days + ' ~ scoring_parameter('warm_up_days')) }}

),

falling as (

    select distinct on (agent_id_hash, as_of, window_days)
        agent_id_hash,
        agent_name,
        as_of,
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
        as_of,
        window_days,
        earlier_window_days

),

episode as (

    select
        scores.agent_id_hash,
        scores.agent_name,
        scores.as_of,
        scores.window_days,
        'episode' as kind,
        'warning' as severity,
        worse_events.value,
        worse_events.value_before as threshold,
        worse_events.message
    from scores
    inner join {{ ref('int_worse_events') }} as worse_events using (agent_id_hash, as_of, window_days)

),

periods as (

    select
        agent_id_hash,
        period_start,
        last_traced_at,
        lead(period_start) over (partition by agent_id_hash order by period_start) as next_period_start
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ windows_from() }} - {{ days(scoring_parameter('silent_days')) }}
        and period_start < {{ run_as_of() }}

),

-- The as-ofs of the run at which an agent had been silent for long enough, but not for longer than a window looks back;
-- there need be no score.
silences as (

    select
        periods.agent_id_hash,
        periods.period_start,
        periods.last_traced_at,
        windows.window_days,
        windows.window_length,
        greatest(
            periods.period_start + {{ period_length() }} + {{ days(scoring_parameter('silent_days')) }},
            {{ cutoff() }} + {{ period_length() }}
        ) as first_as_of,
        least(
            periods.period_start + {{ days(scoring_parameter('silent_days')) }} + windows.window_length,
            periods.next_period_start,
            {{ run_as_of() }}
        ) as last_as_of
    from periods
    cross join scoring_windows as windows

),

silent_as_ofs as (

    select
        silences.agent_id_hash,
        silences.last_traced_at,
        silences.window_days,
        silences.window_length,
        {{ nth_period('silences.first_as_of', 'nth.n') }} as as_of
    from silences
    cross join lateral {{ each_period('silences.first_as_of', 'silences.last_as_of') }} as nth (n)
    where silences.first_as_of <= silences.last_as_of

),

activity as (

    select
        silent_as_ofs.agent_id_hash,
        silent_as_ofs.as_of,
        silent_as_ofs.window_days,
        extract(epoch from silent_as_ofs.as_of - silent_as_ofs.last_traced_at) / 86400 as days_silent,
        sum(periods.n_traces) as n_before
    from silent_as_ofs
    inner join {{ ref('int_agent_periods') }} as periods
        on
            silent_as_ofs.agent_id_hash = periods.agent_id_hash
            and silent_as_ofs.as_of > periods.period_start
            and silent_as_ofs.as_of - silent_as_ofs.window_length - {{ days(scoring_parameter('silent_days')) }}
            <= periods.period_start
    group by
        silent_as_ofs.agent_id_hash,
        silent_as_ofs.as_of,
        silent_as_ofs.window_days,
        silent_as_ofs.last_traced_at

),

silent as (

    select
        activity.agent_id_hash,
        agent_names.agent_name,
        activity.as_of,
        activity.window_days,
        'silent' as kind,
        'warning' as severity,
        activity.days_silent::double precision as value,
        {{ scoring_parameter('silent_days') }}::double precision as threshold,
        format(
            'No trace for %s days, after %s in the %s days before the last %s.',
            round(activity.days_silent, 1),
            activity.n_before,
            activity.window_days,
            {{ scoring_parameter('silent_days') }}
        ) as message
    from activity
    left join {{ ref('int_agent_names') }} as agent_names
        on
            activity.agent_id_hash = agent_names.agent_id_hash
            and activity.as_of > agent_names.named_from
            and (agent_names.named_until is null or activity.as_of <= agent_names.named_until)
    where activity.n_before >= {{ scoring_parameter('silent_min_traces') }}

),

alerts as (

    {% for kind in constant('alert_kinds') %}
    select
        agent_id_hash,
        agent_name,
        as_of,
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
    {{ surrogate_key(['alerts.agent_id_hash', epoch('alerts.as_of'), 'alerts.window_days', 'alerts.kind']) }}
    as capacity_alert_id,
    alerts.agent_id_hash,
    alerts.agent_name,
    alerts.as_of,
    alerts.window_days,
    alerts.kind,
    alerts.severity,
    alerts.value,
    alerts.threshold,
    alerts.message,
    agents.agent_label
from alerts
left join {{ ref('int_agents') }} as agents on alerts.agent_id_hash = agents.agent_id_hash
