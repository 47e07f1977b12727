{{
  config(
    materialized='replace_range',
    indexes=[{'columns': ['agent_label'], 'unique': true}],
  )
}}
{#- Agents ever seen: names, first and last trace, and the newest published score in the shortest window. Grain and key:
    agent_id_hash. Names are null if the agent never sent one; latest_... columns are null without a score, or if the
    column of fct_capacity_scores is null. -#}
with scoring_run as (

    select as_of
    from {{ ref('int_scoring_run') }}

),

reference_window as (

    select min(window_days) as window_days
    from {{ ref('scoring_windows') }}

),

agents as (

    select
        agent_id_hash,
        agent_label,
        first_traced_at
    from {{ ref('int_agents') }}

),

names as (

    select
        agent_id_hash,
        max(agent_name) filter (where named_until is null) as agent_name,
        array_agg(distinct agent_name collate "C") as all_names
    from {{ ref('int_agent_names') }}
    group by agent_id_hash

)

select
    agents.agent_id_hash,
    names.agent_name,
    coalesce(array_remove(names.all_names, names.agent_name), '{}') as former_names,
    agents.first_traced_at,
    last_periods.last_traced_at,
    latest_scores.as_of as latest_as_of,
    latest_scores.window_days as latest_window_days,
    latest_scores.capacity_score as latest_capacity_score,
    latest_scores.category as latest_category,
    latest_scores.score_status as latest_score_status,
    scoring_run.as_of as described_at,
    certainty.capacity_score_low as latest_capacity_score_low,
    certainty.capacity_score_high as latest_capacity_score_high,
    verdicts.category_certainty as latest_category_certainty,
    agents.agent_label,
    (case when names.agent_name is not null then count(*) over (partition by names.agent_name) end)::integer
        as n_agents_of_name
from agents
left join names on agents.agent_id_hash = names.agent_id_hash
cross join scoring_run
cross join reference_window
left join lateral (
    select periods.last_traced_at
    from {{ ref('int_agent_periods') }} as periods
    where periods.agent_id_hash = agents.agent_id_hash
    order by periods.period_start desc
    limit 1
) as last_periods on true
left join lateral (
    select
        scores.as_of,
        scores.window_days,
        scores.capacity_score,
        scores.category,
        scores.score_status
    from {{ rows_after_run('fct_capacity_scores', 'scores') }}
    where
        scores.agent_id_hash = agents.agent_id_hash
        and scores.window_days = reference_window.window_days
    order by scores.as_of desc
    limit 1
) as latest_scores on true
left join lateral {{ scored_row(
    rows_after_run('fct_score_certainty', 'looked_up'),
    'agents.agent_id_hash', 'latest_scores.as_of', 'latest_scores.window_days',
) }} as certainty on true
left join lateral {{ scored_row(
    rows_after_run('fct_verdicts', 'looked_up'),
    'agents.agent_id_hash', 'latest_scores.as_of', 'latest_scores.window_days',
) }} as verdicts on true
