{{ config(materialized='ephemeral') }}
{#- What falling leaves out (certainty.md §4, episode): agents whose episodes or deferrals in the window are worse than
    their own in the steady_days before it, at the as-ofs of the run. A step of fct_capacity_alerts.
    Grain and key: agent, as-of, window. Nothing is null. -#}
with resilience as (

    select
        agent_id_hash,
        as_of,
        window_days,
        mttr_hours,
        n_episodes,
        mttr_hours_before,
        n_episodes_before
    from {{ ref('int_resilience') }}
    where {{ in_scored_range('as_of') }}

),

deferrals as (

    select
        agent_id_hash,
        as_of,
        window_days,
        q_deferral,
        n_judged_deferrals,
        q_deferral_before,
        n_deferrals_before
    from {{ ref('int_incompleteness_awareness') }}
    where {{ in_scored_range('as_of') }}

),

comparisons as (

    select
        agent_id_hash,
        as_of,
        window_days,
        episode_z,
        episode_chance,
        deferrals_are_worse
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

events as (

    select
        resilience.agent_id_hash,
        resilience.as_of,
        resilience.window_days,
        resilience.mttr_hours,
        resilience.n_episodes,
        resilience.mttr_hours_before,
        resilience.n_episodes_before,
        deferrals.q_deferral,
        deferrals.n_judged_deferrals,
        deferrals.q_deferral_before,
        deferrals.n_deferrals_before,
        comparisons.episode_z > {{ scoring_parameter('episode_z') }} as is_longer,
        resilience.n_episodes >= 2
        and comparisons.episode_chance <= {{ scoring_parameter('episode_chance') }} as is_more_often,
        comparisons.deferrals_are_worse as is_judged_worse
    from resilience
    inner join deferrals using (agent_id_hash, as_of, window_days)
    inner join comparisons using (agent_id_hash, as_of, window_days)

)

select
    agent_id_hash,
    as_of,
    window_days,
    case when is_longer then mttr_hours when is_more_often then n_episodes else q_deferral end as value,
    case
        when is_longer then mttr_hours_before
        when is_more_often then n_episodes_before
        else q_deferral_before
    end as value_before,
    concat_ws(
        ' ',
        case when is_longer then format(
            'Episodes last longer: %s, %s h on average; %s days before: %s, %s h.',
            n_episodes,
            round(mttr_hours::numeric, 1),
            {{ scoring_parameter('steady_days') }},
            n_episodes_before,
            round(mttr_hours_before::numeric, 1)
        ) end,
        case when is_more_often then format(
            'Episodes come more often: %s in %s days; %s days before: %s.',
            n_episodes,
            window_days,
            {{ scoring_parameter('steady_days') }},
            n_episodes_before
        ) end,
        case when is_judged_worse then format(
            'Deferrals are judged worse: %s, worth %s on average; %s days before: %s, worth %s.',
            n_judged_deferrals,
            {{ shown_score('q_deferral') }},
            {{ scoring_parameter('steady_days') }},
            n_deferrals_before,
            {{ shown_score('q_deferral_before') }}
        ) end
    ) as message
from events
where is_longer or is_more_often or is_judged_worse
