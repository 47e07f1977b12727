{{ config(materialized='replace_view') }}
{#- points_lost = (1 - capacity_score) * loss / sum of losses, loss the part's share of -ln(capacity_score)
    (certainty.md §1), with the parameters published with the score, not those that the view was compiled with.
    Scores are written before parameters; meanwhile a score whose parameters have not come has no rows. Grain and key: agent, as-of, window, part, where there is a score. loss is null where
    it is infinite. -#}
with parameter_values as (

    {{ attribution_parameter_values() }}

),

published as (

    {{ published_with_components() }}

)

select
    {{ surrogate_key([
        'published.agent_id_hash', epoch('published.as_of'), 'published.window_days', 'ranked.part',
    ]) }} as score_attribution_id,
    published.agent_id_hash,
    published.as_of,
    published.window_days,
    ranked.factor,
    ranked.part,
    ranked.loss,
    ranked.points_lost,
    ranked.rank
from published
inner join parameter_values on published.parameter_set_id = parameter_values.parameter_set_id
cross join lateral {{ losses_of_parts('published', 'parameter_values') }} as losses
cross join lateral (
    select
        attributed.factor,
        attributed.part,
        attributed.loss,
        attributed.points_lost,
        (row_number() over (order by attributed.points_lost desc, attributed.part_order asc))::integer as rank
    from (
        select
            parts.part_order,
            parts.factor,
            parts.part,
            parts.loss,
            {{ share_of(
                '1 - published.capacity_score', 'parts.loss', 'sum(parts.loss) over ()',
                'count(*) filter (where parts.loss is null) over ()',
            ) }} as points_lost
        from unnest(
            array[
                {% for name in attributed_parts().values() %}
                '{{ name }}'{% if not loop.last %},{% endif %}
                {% endfor %}
            ],
            array[
                {% for name in attributed_parts() %}
                '{{ name }}'{% if not loop.last %},{% endif %}
                {% endfor %}
            ],
            array[losses.{{ attributed_parts() | join(', losses.') }}]
        ) with ordinality as parts (factor, part, loss, part_order)
    ) as attributed
) as ranked
