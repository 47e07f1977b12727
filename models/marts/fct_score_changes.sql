{{ config(materialized='replace_view') }}
{#- Contribution of each loss component to the change in fct_score_comparisons (certainty.md §2). The indexes 0 and 1
    stand for the earlier and the later as-of, c for the score and L for the logarithmic mean. points = -loss_change *
    L(c0, c1), where loss_change is the component's share of ln(c0 / c1). The loss_change of a component of R is (a1 -
    a0) * dh/du, where a is its amount, h and u are defined in certainty.md §1, and k is norm_k. The quotient dh/du is k
    L(x0, x1) L(s0, s1) / L(1 + s0, 1 + s1) with x = exp(-u) and s = exp(-k (x - norm_x0)). It stays precise if the two
    scores are close. u is infinite if delta_drift or rho_regression is 1. Then the components of R whose amount is
    infinite at only one of the two as-ofs share the change of R equally. Grain and key: agent, as-of, window,
    compared_with, loss_component. loss_change is null if the loss is infinite at only one of the two as-ofs. -#}
{%- set resilience_components = ['delta_drift', 'mttr_hours', 'rho_regression'] %}
{#- End of a subquery of one row, with an optimization barrier. Without the barrier the planner would copy the
    subquery's expressions to every place that uses them. -#}
{%- set one_row = "from (values (1)) as once (n) offset bigint '0'" %}
with parameter_values as (

    select
        parameter_set_id,
        {% for parameter in ['mttr_scale_hours', 'norm_k', 'norm_x0'] %}
        max(parameter_value) filter (where parameter_name = '{{ parameter }}')::double precision as {{ parameter }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('dim_scoring_parameters') }}
    group by parameter_set_id

),

-- This CTE is read twice, so by default PostgreSQL would materialize it, with the whole history.
published as not materialized (

    select
        scores.agent_id_hash,
        scores.as_of,
        scores.window_days,
        scores.agent_label,
        scores.capacity_score,
        scores.parameter_set_id,
        {% for loss_component in loss_components() %}
        certainty.{{ loss_component }}_loss,
        {% endfor %}
        case when scores.delta_drift < 1 then -ln(1 - scores.delta_drift) end as delta_drift_amount,
        ln(1 + scores.mttr_hours / parameter_values.mttr_scale_hours) as mttr_hours_amount,
        case when scores.rho_regression < 1 then -ln(1 - scores.rho_regression) end as rho_regression_amount,
        (1 - scores.delta_drift) / (1 + scores.mttr_hours / parameter_values.mttr_scale_hours)
        * (1 - scores.rho_regression) as x,
        parameter_values.norm_k,
        parameter_values.norm_x0
    from {{ ref('fct_capacity_scores') }} as scores
    inner join {{ ref('fct_score_certainty') }} as certainty
        on
            scores.agent_id_hash = certainty.agent_id_hash
            and scores.as_of = certainty.as_of
            and scores.window_days = certainty.window_days
    inner join parameter_values on scores.parameter_set_id = parameter_values.parameter_set_id
    where scores.capacity_score is not null

)

select
    {{ surrogate_key([
        'later.agent_id_hash', epoch('later.as_of'), 'later.window_days', 'comparisons.compared_with', 'ranked.loss_component',
    ]) }} as score_change_id,
    later.agent_id_hash,
    later.as_of,
    later.window_days,
    comparisons.compared_with,
    comparisons.compared_as_of,
    ranked.factor,
    ranked.loss_component,
    ranked.loss_change,
    ranked.points,
    ranked.rank,
    later.agent_label
from published as later
cross join lateral {{ earlier_as_ofs('later.as_of', 'later.window_days') }} as comparisons (
    compared_with, compared_as_of
)
cross join lateral {{ scored_row(
    'published as looked_up', 'later.agent_id_hash', 'comparisons.compared_as_of', 'later.window_days'
) }} as earlier
cross join lateral (
    select
        exp(-later.norm_k * (earlier.x - later.norm_x0)) as s_before,
        exp(-later.norm_k * (later.x - later.norm_x0)) as s_now,
        {{ logarithmic_mean('earlier.capacity_score', 'later.capacity_score') }} as points_per_loss,
        {% for loss_component in resilience_components %}
        later.{{ loss_component }}_loss - earlier.{{ loss_component }}_loss{% if not loop.last %} +{% endif %}
        {% endfor %}
        as resilience_change,
        {% for loss_component in resilience_components %}
        ((earlier.{{ loss_component }}_amount is null) <> (later.{{ loss_component }}_amount is null))::integer
        {%- if not loop.last %} +{% endif %}
        {% endfor %}
        as n_turned_amounts
    {{ one_row }}
) as moved
cross join lateral (
    select
        case
            when earlier.x > 0 and later.x > 0
                then
                    later.norm_k * {{ logarithmic_mean('earlier.x', 'later.x') }}
                    * {{ logarithmic_mean('moved.s_before', 'moved.s_now') }}
                    / {{ logarithmic_mean('(1 + moved.s_before)', '(1 + moved.s_now)') }}
        end as per_amount
    {{ one_row }}
) as resilience
cross join lateral (
    select
        valued.factor,
        valued.loss_component,
        valued.loss_change,
        valued.points,
        (row_number() over (order by valued.points, valued.loss_order))::integer as rank
    from (
        select
            losses.*,
            case
                when least(earlier.capacity_score, later.capacity_score) > 0
                    then (0 - losses.loss_change) * moved.points_per_loss
                when losses.has_turned
                    then
                        (later.capacity_score - earlier.capacity_score)
                        / count(*) filter (where losses.has_turned) over ()
                else 0
            end as points
        from (
            values
            {% for row in loss_component_rows() %}
            {%- set loss_component = row.component %}
            {%- set before, now = 'earlier.' ~ loss_component, 'later.' ~ loss_component %}
            (
                {{ row.loss_order }},
                '{{ row.factor }}',
                '{{ loss_component }}',
                {% if loss_component in resilience_components %}
                case
                    when resilience.per_amount is not null
                        then ({{ now }}_amount - {{ before }}_amount) * resilience.per_amount
                    when ({{ before }}_amount is null) <> ({{ now }}_amount is null)
                        then moved.resilience_change / moved.n_turned_amounts
                    else 0
                end,
                {% else %}
                case
                    when num_nonnulls({{ before }}_loss, {{ now }}_loss) > 0
                        then {{ now }}_loss - {{ before }}_loss
                    else 0
                end,
                {% endif %}
                ({{ before }}_loss is null) <> ({{ now }}_loss is null)
            ){% if not loop.last %},{% endif %}
            {% endfor %}
        ) as losses (loss_order, factor, loss_component, loss_change, has_turned)
    ) as valued
) as ranked
where earlier.parameter_set_id = later.parameter_set_id
