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

certainty as (

    select
        agent_id_hash,
        as_of,
        window_days,
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
        episode_before
    from {{ rows_after_run('fct_score_certainty') }}
    where {{ in_scored_range('as_of') }}

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

-- Agents whose rates and calibration cause more loss since some day of the last 42 days.
falling as (

    select
        agent_id_hash,
        agent_name,
        as_of,
        window_days,
        'warning' as severity,
        change_kept_before - change_kept_now as value,
        {{ least_fall }}::double precision as threshold,
        {%- set component -%}
        case change_component
            {%- for row in loss_component_rows() %}
            when '{{ row.component }}' then '{{ row.loss_words }} ({{ row.component }})'
            {%- endfor %}
        end
        {%- endset %}
        {%- set values = {
            'began': 'change_began', 'kept_now': shown_score('change_kept_now'),
            'kept_before': shown_score('change_kept_before'), 'component': component,
        } %}
        case
            when change_days = {{ constant('change_days', 0) }} then {{ alert_sentence('falling', values, 'earlier') }}
            else {{ alert_sentence('falling', values) }}
        end as message
    from factors
    where
        first_traced_at <= as_of - {{ days(constant('change_days', 0) ~ ' + ' ~ scoring_parameter('warm_up_days')) }}
        and capacity_score is not null
        and change_ratio >= {{ scoring_parameter('falling_ratio') }}
        and round((change_kept_before - change_kept_now)::numeric, 12) >= {{ least_fall }}

),

silences as (

    select distinct
        agent_id_hash,
        silent_from
    from {{ ref('int_silent_agents') }}
    where {{ in_scored_range('as_of') }}

),

-- Traces in the window before each silence.
traces_before as (

    select
        silences.agent_id_hash,
        silences.silent_from,
        scoring_windows.window_days,
        sum(periods.n_traces) as n_before
    from silences
    cross join {{ ref('scoring_windows') }} as scoring_windows
    inner join {{ ref('int_agent_periods') }} as periods
        on
            silences.agent_id_hash = periods.agent_id_hash
            and silences.silent_from - {{ days('scoring_windows.window_days') }} <= periods.period_start
            and silences.silent_from > periods.period_start
    group by
        silences.agent_id_hash,
        silences.silent_from,
        scoring_windows.window_days

),

silent_agents as (

    select
        agent_id_hash,
        as_of,
        silent_from,
        extract(epoch from as_of - last_traced_at) / 86400 as days_silent
    from {{ ref('int_silent_agents') }}
    where
        {{ in_scored_range('as_of') }}
        and silent_from <= as_of - {{ days(scoring_parameter('silent_days')) }}

),

-- Agents that sent enough traces before their silence. The agent need not have a score.
silent as (

    select
        silent_agents.agent_id_hash,
        agent_names.agent_name,
        silent_agents.as_of,
        traces_before.window_days,
        case when silent_agents.days_silent >= 7 then 'critical' else 'warning' end as severity,
        silent_agents.days_silent::double precision as value,
        {{ scoring_parameter('silent_days') }}::double precision as threshold,
        {{ alert_sentence('silent', {
            'days_silent': 'round(silent_agents.days_silent, 1)', 'n_before': 'traces_before.n_before',
            'window_days': 'traces_before.window_days', 'silent_days': scoring_parameter('silent_days'),
        }) }} as message
    from silent_agents
    inner join traces_before
        on
            silent_agents.agent_id_hash = traces_before.agent_id_hash
            and silent_agents.silent_from = traces_before.silent_from
            and traces_before.n_before >= {{ scoring_parameter('silent_min_traces') }}
    left join {{ ref('int_agent_names') }} as agent_names
        on
            silent_agents.agent_id_hash = agent_names.agent_id_hash
            and silent_agents.as_of > agent_names.named_from
            and (agent_names.named_until is null or silent_agents.as_of <= agent_names.named_until)

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
