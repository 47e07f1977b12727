{{ config(materialized='replace_view') }}
{#- points = -loss_change * L(c0, c1), loss_change the part's share of ln(c0 / c1), L the logarithmic mean
    (certainty.md §2): what each part added to the change that fct_score_comparisons gives. Parameters and what
    is not there yet: as in fct_score_attribution. Grain and key: agent, as-of, window, compared_with, part.
    loss_change is null where it became infinite or ceased to be. -#}
with parameter_values as (

    {{ attribution_parameter_values() }}

),

-- Read twice: materialized, it would be the whole history. The earlier score is looked up by key, behind an offset, or
-- the planner would begin with every earlier score there is.
published as not materialized (

    {{ published_with_components() }}

)

select
    {{ surrogate_key([
        'later.agent_id_hash', epoch('later.as_of'), 'later.window_days', 'comparisons.compared_with', 'ranked.part',
    ]) }} as score_change_id,
    later.agent_id_hash,
    later.as_of,
    later.window_days,
    comparisons.compared_with,
    comparisons.compared_as_of,
    ranked.factor,
    ranked.part,
    ranked.loss_change,
    ranked.points,
    ranked.rank
from published as later
cross join lateral {{ earlier_as_ofs('later.as_of', 'later.window_days') }} as comparisons (
    compared_with, compared_as_of
)
cross join lateral (
    select published.*
    from published
    where
        published.agent_id_hash = later.agent_id_hash
        and published.window_days = later.window_days
        and published.as_of = comparisons.compared_as_of
        and published.parameter_set_id = later.parameter_set_id
    {{ fence() }} -- noqa: AM09
) as earlier
inner join parameter_values on later.parameter_set_id = parameter_values.parameter_set_id
cross join lateral {{ losses_of_parts('earlier', 'parameter_values') }} as losses_before
cross join lateral {{ losses_of_parts('later', 'parameter_values') }} as losses_now
cross join lateral (
    select
        {{ change_of_resilience_loss(
            'losses_before.u', 'losses_now.u', 'parameter_values.norm_k', 'parameter_values.norm_x0',
        ) }} as loss_change
    {{ once() }}
) as resilience
cross join lateral (
    select
        {{ resilience_loss_per_unit(
            'losses_before.u', 'losses_now.u', 'resilience.loss_change', 'parameter_values.norm_k',
            'parameter_values.norm_x0',
        ) }} as resilience_loss_per_unit,
        {% for part in resilience_parts() %}
        {{ has_turned('losses_before.amount_' ~ part, 'losses_now.amount_' ~ part) }}
        {%- if not loop.last %} +{% endif %}
        {% endfor %}
        as n_turned_amounts,
        {{ logarithmic_mean('earlier.capacity_score', 'later.capacity_score') }} as points_per_loss
    {{ once() }}
) as rates
cross join lateral (
    select
        valued.factor,
        valued.part,
        valued.loss_change,
        valued.points,
        (row_number() over (order by valued.points, valued.part_order))::integer as rank
    from (
        select
            parts.part_order,
            parts.factor,
            parts.part,
            parts.loss_change,
            {{ points_of_change(
                'parts.loss_change', 'parts.has_turned', 'sum(parts.has_turned) over ()',
                'earlier.capacity_score', 'later.capacity_score', 'rates.points_per_loss',
            ) }} as points
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
            array[
                {% for part in attributed_parts() %}
                {% if part in resilience_parts() %}
                {{ change_of_resilience_part(
                    'losses_before.amount_' ~ part, 'losses_now.amount_' ~ part, 'rates.resilience_loss_per_unit',
                    'resilience.loss_change', 'rates.n_turned_amounts',
                ) }}
                {%- else %}
                {{ change_of_loss('losses_before.' ~ part, 'losses_now.' ~ part) }}
                {%- endif %}
                {%- if not loop.last %},{% endif %}
                {% endfor %}
            ],
            array[
                {% for part in attributed_parts() %}
                {{ has_turned('losses_before.' ~ part, 'losses_now.' ~ part) }}{% if not loop.last %},{% endif %}
                {% endfor %}
            ]
        ) with ordinality as parts (factor, part, loss_change, has_turned, part_order)
    ) as valued
) as ranked
