-- Every candidate is what the formulas make of the columns beside it: factors, composites, category, status, limits, and
-- what is listed as unmeasured. A row for each rule that a candidate breaks. Formulas spelt out, not called: the models
-- call the macros.
{%- set parameters = ['lambda_c', 'mu_c', 'integrity_floor', 'mttr_scale_hours', 'norm_k', 'norm_x0', 'weight_c',
    'weight_i_int', 'weight_r', 'weight_i_inc', 'weight_s', 'fragility_epsilon', 'min_traces', 'replay_min_sample'] %}
{%- set unmeasured = {
    'i_replay': {'neutral': 1, 'where': 'n_replayed < replay_min_sample or not '
        ~ scoring_parameter('replay_enabled') | string | lower},
    'delta_drift': {'neutral': 0, 'where': 'n_deltas = 0'},
    'ece': {'neutral': 0, 'where': 'is_listed'},
    's_score': {'neutral': 0, 'where': 'is_listed and n_signals = 0'},
} %}
with categories as (

    select
        category as listed_category,
        lower_bound,
        upper_bound
    from {{ ref('capacity_categories') }}

),

histories as (

    select
        agent_id_hash,
        as_of,
        window_days,
        first_traced_at > window_start - {{ days(scoring_parameter('warm_up_days')) }} as is_warming_up
    from {{ ref('int_core_identity') }}
    where {{ in_increment(ref('int_core_identity')) }}

),

-- As Python computed them, before they are widened by a last digit.
limits as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for name in scores_with_limits() + components_with_limits() %}
        {{ name }}_low as {{ name }}_computed_low,
        {{ name }}_high as {{ name }}_computed_high,
        {% endfor %}
        interval_driver as computed_driver,
        true as has_limits
    from {{ ref('int_score_intervals') }}
    where {{ in_increment(ref('int_score_intervals')) }}

),

candidates as (

    select
        *,
        {% for name in parameters %}
        {{ scoring_parameter(name) }}::double precision as {{ name }},
        {% endfor %}
        greatest(i_int_score, {{ scoring_parameter('integrity_floor') }}) as floored_integrity,
        num_nonnulls(delta_csdma_plausibility_score, delta_dsdma_domain_alignment, delta_coherence_level) as n_deltas,
        coalesce(delta_csdma_plausibility_score, 0)
        + coalesce(delta_dsdma_domain_alignment, 0)
        + coalesce(delta_coherence_level, 0) as sum_of_deltas,
        num_nulls(capacity_score, capacity_score_geometric, fragility_index, category) as n_nulls
    from {{ ref('int_capacity_scores') }}
    left join categories on category = listed_category
    left join histories using (agent_id_hash, as_of, window_days)
    left join limits using (agent_id_hash, as_of, window_days)

),

numbers as (

    select
        candidates.capacity_score_id,
        rules.rule,
        rules.expected::text as expected,
        rules.found::text as found,
        abs(rules.found - rules.expected) <= 1e-12 as holds
    from candidates
    cross join lateral (
        values
        ('c_score', c_score, exp(-(lambda_c * d_identity + mu_c * k_contradiction))),
        ('i_int_score', i_int_score, i_chain * i_coverage * i_replay),
        ('delta_drift', delta_drift, coalesce(sum_of_deltas / nullif(n_deltas, 0), 0)),
        ('r_score', r_score, 1 / (1 + exp(-norm_k * (
            (1 - delta_drift) / (1 + mttr_hours / mttr_scale_hours) * (1 - rho_regression) - norm_x0
        )))),
        ('i_inc_score', i_inc_score, (1 - ece) * q_deferral * (1 - u_unsafe)),
        ('capacity_score', capacity_score, c_score * floored_integrity * r_score * i_inc_score * s_score),
        (
            'capacity_score_geometric', capacity_score_geometric,
            power(c_score, weight_c) * power(floored_integrity, weight_i_int) * power(r_score, weight_r)
            * power(i_inc_score, weight_i_inc) * power(s_score, weight_s)
        ),
        ('fragility_index', fragility_index * (fragility_epsilon + capacity_score), 1)
    ) as rules (rule, found, expected)

),

words as (

    select
        candidates.capacity_score_id,
        rules.rule,
        rules.expected,
        rules.found,
        rules.holds
    from candidates
    cross join lateral (
        values
        (
            'category holds the score', category, format('[%s, %s)', lower_bound, upper_bound),
            capacity_score is null
            or (listed_category is not null and coalesce(capacity_score >= lower_bound, true)
                and coalesce(capacity_score < upper_bound, true))
        ),
        (
            'weakest factor', weakest_factor, 'the first of the smallest',
            weakest_factor = case least(c_score, i_int_score, r_score, i_inc_score, s_score)
                when c_score then 'C' when i_int_score then 'I_int' when r_score then 'R' when i_inc_score then 'I_inc' else 'S'
            end
        ),
        (
            'nulls of a score without enough traces', n_nulls::text, n_traces || ' traces',
            n_traces >= 1 and n_nulls = case when n_traces < min_traces then 4 else 0 end
        ),
        (
            'status', score_status, n_traces || ' traces, warming up: ' || is_warming_up,
            case
                when n_traces < min_traces then score_status = 'insufficient_data'
                when is_warming_up is null then score_status in ('provisional', 'final')
                else score_status = case when is_warming_up then 'provisional' else 'final' end
            end
        ),
        (
            'confidence', confidence, n_traces || ' traces',
            confidence = case
                when n_traces < 10 then 'insufficient' when n_traces < 30 then 'low' when n_traces < 100 then 'medium' else 'high'
            end
        ),
        (
            'window', window_start::text, window_days || ' days before ' || as_of,
            window_start = as_of - {{ days('window_days') }}
        ),
        (
            'listed as unmeasured', unmeasured_components::text, '{{ unmeasured | join(', ') }}',
            unmeasured_components <@ array['{{ unmeasured | join("', '") }}']
        ),
        {% for name, rule in unmeasured.items() %}
        {% set is_listed = "('" ~ name ~ "' = any(unmeasured_components))" %}
        (
            '{{ name }} is listed where it is unmeasured, and neutral', {{ name }}::text, unmeasured_components::text,
            {{ is_listed }} = ({{ rule.where | replace('is_listed', is_listed) }})
            and ({{ name }} = {{ rule.neutral }} or not {{ is_listed }})
        ),
        {% endfor %}
        (
            'limits of a score are null as it is',
            format('[%s, %s]', capacity_score_computed_low, capacity_score_computed_high), capacity_score::text,
            has_limits is null or (
                (capacity_score is null) = (capacity_score_computed_low is null)
                and (capacity_score is null) = (capacity_score_computed_high is null)
                and (capacity_score is null) = (category_certainty is null)
                and (capacity_score is not null or computed_driver is null)
            )
        ){% for name in scores_with_limits() + components_with_limits() %},
        (
            'limits of {{ name }}', format('[%s, %s]', {{ name }}_computed_low, {{ name }}_computed_high), {{ name }}::text,
            has_limits is null
            {% if name == 'capacity_score' %}
            or capacity_score is null
            {% endif %}
            or (
                {{ name }}_computed_low between 0 and {{ name }} + 1e-9 * greatest(1, {{ name }})
                and {{ name }}_computed_high >= {{ name }} - 1e-9 * greatest(1, {{ name }})
                and {{ name }}_computed_high <= {{ "'Infinity'" if name == 'mttr_hours' else 1 }}
            )
        ){% endfor %}

    ) as rules (rule, found, expected, holds)

)

select
    capacity_score_id,
    rule,
    expected,
    found
from numbers
where not holds

union all

select
    capacity_score_id,
    rule,
    expected,
    found
from words
where holds is not true
