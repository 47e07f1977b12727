{{ config(materialized='replace_view') }}
{#- Change of the score since one window earlier and since one period earlier, or the reason why it is not comparable
    (certainty.md §2). Grain and key: agent, as-of, window, compared_with. Scores and change are null if missing. -#}
-- This CTE is read twice, so by default PostgreSQL would materialize it, with the whole history.
with scores as not materialized (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_label,
        capacity_score,
        parameter_set_id
    from {{ ref('fct_capacity_scores') }}

),

compared as (

    select
        scores.agent_id_hash,
        scores.as_of,
        scores.window_days,
        scores.agent_label,
        comparisons.compared_with,
        comparisons.compared_as_of,
        earlier.capacity_score as score_before,
        scores.capacity_score as score_now,
        case
            when earlier.agent_id_hash is null then 'no_earlier_score'
            when earlier.parameter_set_id <> scores.parameter_set_id then 'other_parameter_set'
            when earlier.capacity_score is null or scores.capacity_score is null then 'no_score'
        end as not_comparable_because
    from scores
    cross join lateral {{ earlier_as_ofs('scores.as_of', 'scores.window_days') }} as comparisons (
        compared_with, compared_as_of
    )
    left join lateral {{ scored_row(
        'scores as looked_up', 'scores.agent_id_hash', 'comparisons.compared_as_of', 'scores.window_days'
    ) }} as earlier on true

)

select
    {{ surrogate_key(['agent_id_hash', epoch('as_of'), 'window_days', 'compared_with']) }} as score_comparison_id,
    agent_id_hash,
    as_of,
    window_days,
    compared_with,
    compared_as_of,
    score_before,
    score_now,
    case when not_comparable_because is null then score_now - score_before end as change,
    not_comparable_because,
    agent_label
from compared
