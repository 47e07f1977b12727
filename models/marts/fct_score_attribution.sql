{{ config(materialized='replace_view') }}
{#- points_lost = (1 - capacity_score) * loss / sum of losses, where loss is the component's share of
    -ln(capacity_score) (certainty.md §1). If some losses are infinite (null), those components share the points
    equally. A view, because a table would take 60 GB a year for 10,000 agents.
    Grain and key: agent, as-of, window and part (loss component), for rows with a score. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for part in attributed_parts() %}
        {{ part }}_loss,
        {% endfor %}
        capacity_score
    from {{ ref('fct_capacity_scores') }}
    where capacity_score is not null

)

select
    {{ surrogate_key(['scores.agent_id_hash', epoch('scores.as_of'), 'scores.window_days', 'ranked.part']) }}
    as score_attribution_id,
    scores.agent_id_hash,
    scores.as_of,
    scores.window_days,
    ranked.factor,
    ranked.part,
    ranked.loss,
    ranked.points_lost,
    ranked.rank
from scores
cross join lateral (
    select
        shared.factor,
        shared.part,
        shared.loss,
        shared.points_lost,
        (row_number() over (order by shared.points_lost desc, shared.part_order asc))::integer as rank
    from (
        select
            parts.*,
            (1 - scores.capacity_score) * case
                when count(*) filter (where parts.loss is null) over () > 0
                    then
                        (parts.loss is null)::integer::double precision
                        / count(*) filter (where parts.loss is null) over ()
                else coalesce(parts.loss / nullif(sum(parts.loss) over (), 0), 0)
            end as points_lost
        from (
            values
            {% for row in part_rows() %}
            ({{ row.part_order }}, '{{ row.factor }}', '{{ row.component }}', scores.{{ row.component }}_loss)
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        ) as parts (part_order, factor, part, loss)
    ) as shared
) as ranked
