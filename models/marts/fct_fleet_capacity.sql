{{ config(materialized='replace_range', meta={'scored_range': 'as_of', 'also_replaced_by': ['as_of']}) }}
{#- Mean, median and minimum of capacity_score over the agents of an as-of, and how many of them stand in each
    category (scoring.md §8). An increment redoes the as-ofs it has scored, and older ones that gained rows since. Grain
    and key: as-of, window. Mean, median and minimum are null where no agent has enough traces. -#}
with scores as (

    select
        as_of,
        window_days,
        agent_id_hash,
        capacity_score,
        category,
        score_status,
        scored_at
    from {{ ref('fct_capacity_scores') }}
    {%- set rewritten = in_scored_range('redone.as_of') %}
    {% if is_incremental() %}
    where as_of in (
        select redone.as_of
        from {{ ref('fct_capacity_scores') }} as redone
        where
            {{ rewritten }}
            or redone.scored_at > (
                select coalesce(max(latest.latest_scored_at), '-infinity') from {{ this }} as latest
            )
    )
    {% endif %}

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
    avg(capacity_score order by agent_id_hash)::double precision as mean_capacity_score,
    percentile_cont(0.5) within group (order by capacity_score) as median_capacity_score,
    min(capacity_score) as min_capacity_score,
    max(scored_at) as latest_scored_at
from scores
group by
    as_of,
    window_days
