{{ config(materialized='replace_view') }}
{#- points_lost = (1 - capacity_score) * loss / sum of losses, where loss is the amount that the component adds to
    -ln(capacity_score) (certainty.md §1). If some losses are infinite (null), the components with infinite loss share
    the points equally. A view, because a table would take 60 GB a year for 10,000 agents. Grain and key: agent, as-of,
    window and loss component, for rows with a score. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_label,
        capacity_score
    from {{ ref('fct_capacity_scores') }}
    where capacity_score is not null

),

certainty as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for loss_component in loss_components() %}
        {{ loss_component }}_loss{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('fct_score_certainty') }}

)

select
    {{ surrogate_key(['scores.agent_id_hash', epoch('scores.as_of'), 'scores.window_days', 'ranked.loss_component']) }}
    as score_attribution_id,
    scores.agent_id_hash,
    scores.as_of,
    scores.window_days,
    ranked.factor,
    ranked.loss_component,
    ranked.loss,
    ranked.points_lost,
    ranked.rank,
    scores.agent_label
from scores
inner join certainty
    on
        scores.agent_id_hash = certainty.agent_id_hash
        and scores.as_of = certainty.as_of
        and scores.window_days = certainty.window_days
cross join lateral (
    select
        shared.factor,
        shared.loss_component,
        shared.loss,
        shared.points_lost,
        (row_number() over (order by shared.points_lost desc, shared.loss_order asc))::integer as rank
    from (
        select
            losses.*,
            (1 - scores.capacity_score) * case
                when count(*) filter (where losses.loss is null) over () > 0
                    then
                        (losses.loss is null)::integer::double precision
                        / count(*) filter (where losses.loss is null) over ()
                else coalesce(losses.loss / nullif(sum(losses.loss) over (), 0), 0)
            end as points_lost
        from (
            values
            {% for row in loss_component_rows() %}
            ({{ row.loss_order }}, '{{ row.factor }}', '{{ row.component }}', certainty.{{ row.component }}_loss)
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        ) as losses (loss_order, factor, loss_component, loss)
    ) as shared
) as ranked
