{{ config(materialized='view', pre_hook="{{ replace_kept_view() }}") }}
{#- Grain: one row per agent, as-of, window and part, where there is a capacity_score (certainty, section 1). The
    parameters are those published with the scores, not those that the view was compiled with. Scores, components and
    parameters are written in this order; meanwhile a score whose components or parameters have not come has no rows. -#}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        capacity_score,
        s_score,
        parameter_set_id,
        scored_at
    from {{ ref('fct_capacity_scores') }}
    where capacity_score is not null

),

components as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for component in attributed_components() %}
        {{ component }},
        {% endfor %}
        scored_at
    from {{ ref('int_published_components') }}

),

parameter_values as (

    select
        parameter_set_id,
        {% for parameter in attribution_parameters() %}
        max(parameter_value) filter (where parameter_name = '{{ parameter }}')::double precision as {{ parameter }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('dim_scoring_parameters') }}
    group by parameter_set_id

),

published as (

    select
        components.*,
        scores.capacity_score,
        scores.s_score,
        scores.parameter_set_id
    from scores
    inner join components
        on
            scores.agent_id_hash = components.agent_id_hash
            and scores.window_days = components.window_days
            and scores.as_of = components.as_of
            and scores.scored_at <= components.scored_at

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
