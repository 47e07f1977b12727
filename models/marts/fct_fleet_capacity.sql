{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- Mean, median and minimum of capacity_score over the agents of an as-of, and number of agents per category
    (scoring.md §8), and the median of capacity_score_steady. Silent agents are counted. Grain and key: as-of, window.
    Mean, medians and minimum are null if no agent has enough traces. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        capacity_score,
        category,
        score_status,
        scored_at
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_scored_range('as_of') }}

),

certainty as (

    select
        agent_id_hash,
        as_of,
        window_days,
        capacity_score_steady
    from {{ rows_after_run('fct_score_certainty') }}
    where {{ in_scored_range('as_of') }}

),

rows_of_fleet as (

    select * -- noqa: RF02
    from scores
    left join certainty using (agent_id_hash, as_of, window_days)

)

select
    {{ surrogate_key([epoch('as_of'), 'window_days']) }} as fleet_capacity_id,
    as_of,
    window_days,
    count(*)::integer as n_agents,
    count(*) filter (where score_status = 'final')::integer as n_final,
    count(*) filter (where score_status = 'provisional')::integer as n_provisional,
    count(*) filter (where score_status = 'insufficient_data')::integer as n_insufficient_data,
    count(*) filter (where category = 'high_fragility')::integer as n_high_fragility,
    count(*) filter (where category = 'moderate')::integer as n_moderate,
    count(*) filter (where category = 'healthy')::integer as n_healthy,
    count(*) filter (where category = 'high_capacity')::integer as n_high_capacity,
    avg(capacity_score order by agent_id_hash collate "C")::double precision as mean_capacity_score,
    percentile_cont(0.5) within group (order by capacity_score) as median_capacity_score,
    min(capacity_score) as min_capacity_score,
    max(scored_at) as latest_scored_at,
    percentile_cont(0.5) within group (order by capacity_score_steady) as median_capacity_score_steady,
    count(*) filter (where score_status = 'no_traces')::integer as n_no_traces
from rows_of_fleet
group by
    as_of,
    window_days
