{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['agent_id_hash']}],
  )
}}
{#- Alerts at the as-ofs of the run, with value, threshold and severity (certainty.md §4). Each kind has a file in
    python/ciris_scoring/kinds/alerts and a CTE of the same name here. Grain and key: agent, as-of, window, kind. Only
    agent_name may be null. -#}
{#- Drops and losses are rounded before they are compared, so that a drop of exactly the threshold counts. With a
    threshold of 0, any drop counts. -#}
{%- set least_fall = 'greatest(' ~ scoring_parameter('falling_least_drop') ~ '::numeric, 1e-12)' %}
-- depends_on: {{ ref('int_scoring_run') }}
-- depends_on: {{ ref('int_agents') }}
with windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start,
        first_traced_at,
        n_key_registered,
        n_missing_numbers
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_name,
        n_traces,
        capacity_score,
        chain_gaps,
        chain_rewinds,
        chain_duplicates
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_scored_range('as_of') }}

),

-- The rows of the run, and the earlier rows with which their windows are compared. This CTE is read several times, so
-- by default PostgreSQL would materialize it.
certainty as not materialized (

    select
        agent_id_hash,
        as_of,
        window_days,
        capacity_score_low,
        capacity_score_high,
        chain_gap_z,
        change_ratio,
        change_days,
        change_kept_before,
        change_kept_now,
        change_component,
        episode_z,
        episode_kind,
        episode_days,
        episode_now,
        episode_before,
        rate_components_loss,
        rate_components_worse_sd,
        rate_components_better_sd
    from {{ rows_after_run('fct_score_certainty') }}
    where
        as_of >= {{ windows_from() }}
        and as_of <= {{ run_as_of() }}

),

joined as (

    select * -- noqa: RF02
    from scores
    inner join certainty using (agent_id_hash, as_of, window_days)
    inner join windows using (agent_id_hash, as_of, window_days)

),

factors as (

    select
        *,
        n_traces - n_key_registered as n_untrusted,
        capacity_score_high < {{ scoring_parameter('low_capacity_threshold') }}::double precision as is_certainly_low,
        first_traced_at <= as_of - {{ days(constant('change_days', 0) ~ ' + ' ~ scoring_parameter('warm_up_days')) }}
        and capacity_score is not null as is_comparable,
        {{ utc_day('(as_of - ' ~ days('change_days') ~ ')') }} as change_began,
        {{ utc_day('(as_of - ' ~ days('episode_days') ~ ')') }} as episode_began,
        chain_rewinds + chain_duplicates > 0
        or (
            chain_gaps > {{ scoring_parameter('chain_gap_share') }} * n_traces
            and chain_gap_z >= {{ scoring_parameter('chain_gap_z') }}
            and chain_gap_z > 0
        ) as is_rewritten
    from joined

),

low_capacity as (

    select
        factors.agent_id_hash,
        factors.agent_name,
        factors.as_of,
        factors.window_days,
        case when factors.is_certainly_low then 'critical' else 'warning' end as severity,
        factors.capacity_score as value,
        {{ scoring_parameter('low_capacity_threshold') }}::double precision as threshold,
        {%- set values = {
            'capacity': shown_score('factors.capacity_score'), 'threshold': scoring_parameter('low_capacity_threshold'),
        } %}
        case
            when factors.is_certainly_low then {{ alert_sentence('low_capacity', values, 'critical') }}
            else {{ alert_sentence('low_capacity', values, 'warning') }}
        end as message
    from factors
    where
        factors.capacity_score < {{ scoring_parameter('low_capacity_threshold') }}::double precision

),

broken_chain as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        case when is_rewritten then 'critical' else 'warning' end as severity,
        (chain_gaps + chain_rewinds + chain_duplicates)::double precision as value,
        0::double precision as threshold,
        case
            when is_rewritten then {{ alert_sentence('broken_chain', {}, 'critical') }}
            else {{ alert_sentence('broken_chain', {}, 'warning') }}
        end as message
    from factors
    where chain_gaps + chain_rewinds + chain_duplicates > 0

),

untrusted_key as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        'critical' as severity,
        n_untrusted::double precision as value,
        0::double precision as threshold,
        {{ alert_sentence('untrusted_key') }} as message
    from factors
    where n_untrusted > 0

),

-- Agents whose episodes or deferrals became worse. The alert falling ignores episodes and deferrals.
episode as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        'warning' as severity,
        episode_now as value,
        episode_before as threshold,
        case episode_kind
            {%- for kind, shown in {
                'longer': 'round({}::numeric, 1)', 'more_often': 'round({}::numeric, 1)::real',
                'judged_worse': shown_score('{}'),
            }.items() %}
            when '{{ kind }}' then {{ alert_sentence('episode', {
                'began': 'episode_began', 'now': shown.replace('{}', 'episode_now'),
                'before': shown.replace('{}', 'episode_before'),
            }, kind) }}
            {%- endfor %}
        end as message
    from factors
    where episode_z >= {{ scoring_parameter('episode_z') }} and episode_z > 0

),

-- Drops of the score since one window earlier. Both scores are computed without episodes and deferrals. Rows whose
-- earlier score is provisional are skipped.
fallen as (

    select
        later.agent_id_hash,
        later.as_of,
        later.window_days,
        {{ utc_day('windows.window_start') }} as began,
        changed.kept_before,
        changed.kept_now,
        changed.component
    from windows
    inner join certainty as later
        on
            windows.agent_id_hash = later.agent_id_hash
            and windows.as_of = later.as_of
            and windows.window_days = later.window_days
    inner join certainty as earlier
        on
            windows.agent_id_hash = earlier.agent_id_hash
            and windows.window_days = earlier.window_days
            and windows.window_start = earlier.as_of
            and windows.first_traced_at
            <= earlier.as_of - {{ days('earlier.window_days + ' ~ scoring_parameter('warm_up_days')) }}
    cross join lateral (
        select
            exp(-sum(losses.loss_before)) as kept_before,
            exp(-sum(losses.loss_now)) as kept_now,
            sum(losses.loss_change) >= sqrt(sum(losses.variance))
            * {{ scoring_parameter('falling_z_together') }}
            as together,
            bool_or(
                round(losses.loss_change::numeric, 12) > 0.02 and losses.loss_change >= sqrt(losses.variance)
                * {{ scoring_parameter('falling_z_alone') }}
            ) as alone,
            (array_agg(losses.loss_component order by losses.loss_change desc, losses.loss_order asc))[1]
            as component
        from (
            select
                *,
                loss_now - loss_before as loss_change,
                worse_sd ^ 2 + better_sd ^ 2 as variance
            from unnest(
                '{ {{- components_with_design_effect() | join(',') -}} }'::text[],
                earlier.rate_components_loss,
                earlier.rate_components_worse_sd,
                later.rate_components_loss,
                later.rate_components_better_sd
            ) with ordinality as losses (loss_component, loss_before, worse_sd, loss_now, better_sd, loss_order)
        ) as losses
        where num_nulls(losses.loss_before, losses.loss_now) = 0
    ) as changed
    where
        num_nulls(later.capacity_score_low, earlier.capacity_score_low) = 0
        and (changed.together or changed.alone)
        and round((changed.kept_before - changed.kept_now)::numeric, 12) >= {{ least_fall }}

),

-- Agents whose rate components cause more loss since some day of the last 42 days (change_ratio). If no such day is
-- found, the window is compared with the window before.
falling as (

    select
        factors.agent_id_hash,
        factors.agent_name,
        factors.as_of,
        factors.window_days,
        'warning' as severity,
        found.kept_before - found.kept_now as value,
        {{ least_fall }}::double precision as threshold,
        {%- set component -%}
        case found.component
            {%- for row in loss_component_rows() %}
            when '{{ row.component }}' then '{{ row.loss_words }} ({{ row.component }})'
            {%- endfor %}
        end
        {%- endset %}
        {%- set values = {
            'began': 'found.began', 'kept_now': shown_score('found.kept_now'),
            'kept_before': shown_score('found.kept_before'), 'component': component,
            'window_days': 'factors.window_days',
        } %}
        case
            when changed.is_raised then {{ alert_sentence('falling', values, 'changed') }}
            else {{ alert_sentence('falling', values, 'compared') }}
        end as message
    from factors
    left join fallen
        on
            factors.agent_id_hash = fallen.agent_id_hash
            and factors.as_of = fallen.as_of
            and factors.window_days = fallen.window_days
    cross join lateral (
        select
            factors.is_comparable
            and factors.change_ratio >= {{ scoring_parameter('falling_ratio') }}
            and round((factors.change_kept_before - factors.change_kept_now)::numeric, 12) >= {{ least_fall }}
            as is_raised
    ) as changed
    cross join lateral (
        select
            case when changed.is_raised then factors.change_began else fallen.began end as began,
            case when changed.is_raised then factors.change_kept_before else fallen.kept_before end as kept_before,
            case when changed.is_raised then factors.change_kept_now else fallen.kept_now end as kept_now,
            case when changed.is_raised then factors.change_component else fallen.component end as component
    ) as found
    where found.began is not null

),

periods as (

    select
        agent_id_hash,
        period_start,
        last_traced_at,
        n_traces,
        lead(period_start) over (partition by agent_id_hash order by period_start) as next_period_start
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ windows_from() }} - {{ days(scoring_parameter('silent_days')) }}
        and period_start < {{ run_as_of() }}

),

-- As-ofs at which the last trace of an agent is at least silent_days old, but not older than silent_days plus the
-- window. The agent need not have a score there.
silent_as_ofs as (

    select
        periods.agent_id_hash,
        windows.window_days,
        {{ nth_period('silences.first_as_of', 'nth.n') }} as as_of,
        extract(epoch from {{ nth_period('silences.first_as_of', 'nth.n') }} - periods.last_traced_at)
        / 86400 as days_silent
    from periods
    cross join {{ ref('scoring_windows') }} as windows
    cross join lateral (
        select
            greatest(
                periods.period_start + {{ period_length() }} + {{ days(scoring_parameter('silent_days')) }},
                {{ cutoff() }} + {{ period_length() }}
            ) as first_as_of,
            least(
                periods.period_start + {{ days(scoring_parameter('silent_days') ~ ' + windows.window_days') }},
                periods.next_period_start,
                {{ run_as_of() }}
            ) as last_as_of
    ) as silences
    cross join lateral {{ each_period('silences.first_as_of', 'silences.last_as_of') }} as nth (n)

),

silent as (

    select
        silent_as_ofs.agent_id_hash,
        agent_names.agent_name,
        silent_as_ofs.as_of,
        silent_as_ofs.window_days,
        'warning' as severity,
        silent_as_ofs.days_silent::double precision as value,
        {{ scoring_parameter('silent_days') }}::double precision as threshold,
        {{ alert_sentence('silent', {
            'days_silent': 'round(silent_as_ofs.days_silent, 1)', 'n_before': 'sum(periods.n_traces)',
            'window_days': 'silent_as_ofs.window_days', 'silent_days': scoring_parameter('silent_days'),
        }) }} as message
    from silent_as_ofs
    inner join periods
        on
            silent_as_ofs.agent_id_hash = periods.agent_id_hash
            and silent_as_ofs.as_of > periods.period_start
            and silent_as_ofs.as_of
            - {{ days('silent_as_ofs.window_days + ' ~ scoring_parameter('silent_days')) }} <= periods.period_start
    left join {{ ref('int_agent_names') }} as agent_names
        on
            silent_as_ofs.agent_id_hash = agent_names.agent_id_hash
            and silent_as_ofs.as_of > agent_names.named_from
            and (agent_names.named_until is null or silent_as_ofs.as_of <= agent_names.named_until)
    group by
        silent_as_ofs.agent_id_hash,
        agent_names.agent_name,
        silent_as_ofs.as_of,
        silent_as_ofs.window_days,
        silent_as_ofs.days_silent
    having sum(periods.n_traces) >= {{ scoring_parameter('silent_min_traces') }}

)

{% for kind in constant('alerts') %}
select
    {{ surrogate_key(['alerts.agent_id_hash', epoch('alerts.as_of'), 'alerts.window_days', "'" ~ kind ~ "'"]) }}
    as capacity_alert_id,
    alerts.agent_id_hash,
    alerts.agent_name,
    alerts.as_of,
    alerts.window_days,
    '{{ kind }}' as kind,
    alerts.severity,
    alerts.value,
    alerts.threshold,
    alerts.message,
    agents.agent_label
from {{ kind }} as alerts
left join {{ ref('int_agents') }} as agents on alerts.agent_id_hash = agents.agent_id_hash
{% if not loop.last %}union all{% endif %}
{% endfor %}
