{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['agent_id_hash']}],
  )
}}
{#- Alerts at the as-ofs of the run, with value, threshold and severity (scoring.md §8, certainty.md §4). Each kind has
    a file in python/ciris_scoring/kinds/alerts and a CTE of the same name here. Alerts are built before the scores,
    whose verdicts need them. Grain and key: agent, as-of, window, kind. agent_name is null if the agent never sent one.
    -#}
{%- set least_fall = '(' ~ scoring_parameter('falling_threshold') ~ '::numeric / 3)::double precision' %}
{%- set least_z = 'case when later.window_days = earlier.window_days then {} else {} end' %}
{%- set of_all = (scoring_parameter('falling_z_together'), scoring_parameter('falling_month_z_together')) %}
{%- set of_one = (scoring_parameter('falling_z_alone'), scoring_parameter('falling_month_z_alone')) %}
-- depends_on: {{ ref('int_scoring_run') }}
-- depends_on: {{ ref('int_agents') }}
with factors as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        n_traces,
        n_traces - n_key_registered as n_untrusted,
        capacity_score_high < {{ scoring_parameter('low_capacity_threshold') }}::double precision as is_certainly_low,
        episode_z > {{ scoring_parameter('episode_z') }} as is_longer,
        n_recoveries + n_open_episodes >= 2
        and episode_chance <= {{ scoring_parameter('episode_chance') }} as is_more_often,
        deferrals_are_worse as is_judged_worse,
        n_missing_numbers,
        n_chain_rewinds + n_chain_duplicates > 0
        or (
            n_chain_gaps > {{ scoring_parameter('chain_gap_share') }} * n_traces
            and chain_gap_z >= {{ scoring_parameter('chain_gap_z') }}
        ) as is_rewritten,
        {{ factor_columns() }}
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

low_capacity as (

    select
        factors.agent_id_hash,
        factors.agent_name,
        factors.as_of,
        factors.window_days,
        case when factors.is_certainly_low then 'critical' else 'warning' end as severity,
        scores.capacity_score as value,
        {{ scoring_parameter('low_capacity_threshold') }}::double precision as threshold,
        {%- set values = {
            'capacity': shown_score('scores.capacity_score'), 'threshold': scoring_parameter('low_capacity_threshold'),
        } %}
        case
            when factors.is_certainly_low then {{ alert_sentence('low_capacity', values, 'critical') }}
            else {{ alert_sentence('low_capacity', values, 'warning') }}
        end as message
    from factors
    cross join lateral (
        select {{ capacity_score('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as capacity_score
    ) as scores
    where
        factors.n_traces >= {{ scoring_parameter('min_traces') }}
        and scores.capacity_score < {{ scoring_parameter('low_capacity_threshold') }}::double precision

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

-- Episodes or deferrals that are worse than in the steady_days before the window. The alert falling ignores them.
episode as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        'warning' as severity,
        case when is_longer then mttr_hours when is_more_often then n_episodes else q_deferral end as value,
        case
            when is_longer then mttr_hours_before
            when is_more_often then n_episodes_before
            else q_deferral_before
        end as threshold,
        {%- set values = {
            'hours': 'round(mttr_hours::numeric, 1)', 'hours_before': 'round(mttr_hours_before::numeric, 1)',
            'value': shown_score('q_deferral'), 'value_before': shown_score('q_deferral_before'),
            'steady_days': scoring_parameter('steady_days'),
        } %}
        concat_ws(
            ' ',
            case when is_longer then {{ alert_sentence('episode', values, 'longer') }} end,
            case when is_more_often then {{ alert_sentence('episode', values, 'more_often') }} end,
            case when is_judged_worse then {{ alert_sentence('episode', values, 'judged_worse') }} end
        ) as message
    from factors
    where is_longer or is_more_often or is_judged_worse

),

-- Score without episodes and deferrals, now and before, if the earlier score is not provisional. Each window is
-- compared with the one before it; a week also with the 30 days before it.
falling as (

    select distinct on (later.agent_id_hash, later.as_of, later.window_days)
        later.agent_id_hash,
        later.agent_name,
        later.as_of,
        later.window_days,
        'warning' as severity,
        changed.kept_before - changed.kept_now as value,
        {{ least_fall }} as threshold,
        {%- set earlier_window =
            "case earlier.window_days when 7 then 'week' when 30 then 'month' else earlier.window_days || ' days' end" %}
        {%- set greatest_loss_component -%}
        case changed.greatest_loss_component
            {%- for row in part_rows() %}
            when '{{ row.component }}' then '{{ row.loss_words }} ({{ row.component }})'
            {%- endfor %}
        end
        {%- endset %}
        {{ alert_sentence('falling', {
            'earlier_window': earlier_window, 'kept_now': shown_score('changed.kept_now'),
            'kept_before': shown_score('changed.kept_before'), 'greatest_loss_component': greatest_loss_component,
        }) }} as message
    from {{ ref('int_windows') }} as later
    inner join {{ ref('int_windows') }} as earlier
        on
            later.agent_id_hash = earlier.agent_id_hash
            and later.window_start = earlier.as_of
            and earlier.as_of >= {{ windows_from() }}
            and (
                later.window_days = earlier.window_days
                or (later.window_days = 7 and earlier.window_days = 30)
            )
            and later.first_traced_at
            <= earlier.as_of - {{ days('earlier.window_days + ' ~ scoring_parameter('warm_up_days')) }}
    cross join lateral (
        select
            exp(-sum(losses.loss_before)) as kept_before,
            exp(-sum(losses.loss_now)) as kept_now,
            sum(losses.loss_change) >= sqrt(sum(losses.variance))
            * {{ least_z.format(*of_all) }}
            as together,
            bool_or(
                losses.loss_change > 0.02 and losses.loss_change >= sqrt(losses.variance)
                * {{ least_z.format(*of_one) }}
            ) as alone,
            (array_agg(losses.loss_component order by losses.loss_change desc, losses.loss_order asc))[1]
            as greatest_loss_component
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
        where
            num_nulls(losses.loss_before, losses.loss_now) = 0
            and (losses.loss_component <> 'delta_drift' or later.window_days = earlier.window_days)
    ) as changed
    where
        {{ in_scored_range('later.as_of') }}
        and num_nulls(later.capacity_score_low, earlier.capacity_score_low) = 0
        and (changed.together or changed.alone)
        and changed.kept_before - changed.kept_now >= {{ least_fall }}
    order by
        later.agent_id_hash,
        later.as_of,
        later.window_days,
        earlier.window_days

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

-- As-ofs at which an agent has been silent for at least silent_days, while its last traces are still in reach of the
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
