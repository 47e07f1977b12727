{% if is_testable() %}
-- Every score follows from the other columns of its row by the formulas: factors, composites, category, status,
-- confidence bounds and unmeasured components. One result per broken rule and score. The formulas are written out here,
-- because the models call the macros and a test of a macro by itself would find nothing.
{%- set parameters = ['lambda_c', 'mu_c', 'integrity_floor', 'mttr_scale_hours', 'norm_k', 'norm_x0', 'weight_c',
    'weight_i_int', 'weight_r', 'weight_i_inc', 'weight_s', 'fragility_epsilon', 'min_traces', 'replay_min_sample'] %}
{#- Column, and the expression that it must equal within 1e-12. Nulls pass. -#}
{%- set numbers = {
    'c_score': 'exp(-(lambda_c * d_identity + mu_c * k_contradiction))',
    'i_int_score': 'i_chain * i_coverage * i_replay',
    'delta_drift': 'coalesce(sum_of_deltas / nullif(n_deltas, 0), 0)',
    'r_score': '1 / (1 + exp(-norm_k * ('
        ~ '(1 - delta_drift) / (1 + mttr_hours / mttr_scale_hours) * (1 - rho_regression) - norm_x0)))',
    'i_inc_score': '(1 - ece) * q_deferral * (1 - u_unsafe)',
    'capacity_score': 'c_score * floored_integrity * r_score * i_inc_score * s_score',
    'capacity_score_geometric': 'power(c_score, weight_c) * power(floored_integrity, weight_i_int)'
        ~ ' * power(r_score, weight_r) * power(i_inc_score, weight_i_inc) * power(s_score, weight_s)',
    'fragility_index': '1 / (fragility_epsilon + capacity_score)',
    'capacity_score_steady': 'c_score_steady * greatest(i_int_score_steady, integrity_floor) * r_score_steady'
        ~ ' * i_inc_score_steady * s_score_steady',
} %}
{#- Rule: the column to show if a score breaks it, and the condition. -#}
{%- set rules = {
    'category holds the score': ('category', "capacity_score is null or (listed_category is not null"
        ~ " and coalesce(capacity_score >= lower_bound, true) and coalesce(capacity_score < upper_bound, true))"),
    'the steady score has a category, or a reason why it is missing': ('category_steady',
        '(capacity_score_steady is null) = (category_steady is null)'
        ~ ' and (capacity_score_steady is null) = (category_steady_certainty is null)'
        ~ ' and (capacity_score_steady is null) = (steady_missing_because is not null)'),
    'the verdict follows from the probability': ('probability_at_threshold', 'probability_at_threshold is null or ('
        ~ '(probability_at_threshold >= ' ~ setting('grant_probability') ~ ' - 1e-6 or grant_score < verdict_threshold)'
        ~ ' and (probability_at_threshold < ' ~ setting('withhold_probability') ~ ' + 1e-6'
        ~ ' or withhold_score >= verdict_threshold))'),
    'weakest factor is the first of the smallest': ('weakest_factor', "weakest_factor ="
        ~ " case least(c_score, i_int_score, r_score, i_inc_score, s_score) when c_score then 'C'"
        ~ " when i_int_score then 'I_int' when r_score then 'R' when i_inc_score then 'I_inc' else 'S' end"),
    'without enough traces there is no score': ('n_nulls', 'n_traces >= 1 and n_nulls ='
        ~ ' case when n_traces < min_traces then 4 else 0 end'),
    'status follows from traces and history': ('score_status', "case"
        ~ " when n_traces < min_traces then score_status = 'insufficient_data'"
        ~ " when is_warming_up is null then score_status in ('provisional', 'final')"
        ~ " else score_status = case when is_warming_up then 'provisional' else 'final' end end"),
    'confidence follows from traces': ('confidence', "confidence = case when n_traces < 10 then 'insufficient'"
        ~ " when n_traces < 30 then 'low' when n_traces < 100 then 'medium' else 'high' end"),
    'the window is as long as it says': ('window_start', 'window_start = as_of - ' ~ days('window_days')),
    'nothing else is unmeasured': ('unmeasured_components',
        "unmeasured_components <@ array['i_replay', 'delta_drift', 'ece', 's_score']"),
    'i_replay is listed where it is unmeasured': ('i_replay', "('i_replay' = any(unmeasured_components)) ="
        ~ " (n_replayed < replay_min_sample or not " ~ scoring_parameter('replay_enabled') | string | lower ~ ")"),
    'delta_drift is listed where it is unmeasured': ('delta_drift',
        "('delta_drift' = any(unmeasured_components)) = (n_deltas = 0)"),
    's_score with signals is measured': ('s_score', "n_signals = 0 or 's_score' <> all(unmeasured_components)"),
    'limits of a score are null as it is': ('capacity_score_computed_low', 'has_interval is null or ('
        ~ '(capacity_score is null) = (capacity_score_computed_low is null)'
        ~ ' and (capacity_score is null) = (capacity_score_computed_high is null)'
        ~ ' and (capacity_score is null) = (category_certainty is null)'
        ~ ' and (capacity_score is not null or computed_driver is null))'),
} %}
{%- for name, neutral in {'i_replay': 1, 'delta_drift': 0, 'ece': 0, 's_score': 0}.items() %}
{%- do rules.update({name ~ ' unmeasured is neutral': (name,
    name ~ ' = ' ~ neutral ~ " or '" ~ name ~ "' <> all(unmeasured_components)")}) %}
{%- endfor %}
{%- for name in constant('scores_with_intervals') + components_with_intervals() %}
{%- set slack = '1e-9 * greatest(1, ' ~ name ~ ')' %}
{%- do rules.update({'limits of ' ~ name ~ ' hold it': (name, 'has_interval is null'
    ~ (' or ' ~ name ~ ' is null' if name.startswith('capacity_score') else '') ~ ' or ('
    ~ name ~ '_computed_low between 0 and ' ~ name ~ ' + ' ~ slack
    ~ ' and ' ~ name ~ '_computed_high >= ' ~ name ~ ' - ' ~ slack
    ~ ' and ' ~ name ~ '_computed_high <= ' ~ ("'Infinity'" if name == 'mttr_hours' else '1') ~ ')')}) %}
{%- endfor %}
with categories as (

    select
        category,
        category as listed_category,
        lower_bound,
        upper_bound
    from {{ ref('capacity_categories') }}

),

-- Confidence bounds from Python, before they are widened by one unit in the last place.
windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        first_traced_at > window_start - {{ days(scoring_parameter('warm_up_days')) }} as is_warming_up,
        {% for name in constant('scores_with_intervals') + components_with_intervals() %}
        {{ name }}_low as {{ name }}_computed_low,
        {{ name }}_high as {{ name }}_computed_high,
        {% endfor %}
        interval_driver as computed_driver,
        true as has_interval
    from {{ ref('int_windows') }}
    where {{ in_increment(ref('int_windows')) }}

),

scores as (

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
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_increment(ref('fct_capacity_scores')) }}

),

joined as (

    select
        scores.*,
        categories.listed_category,
        categories.lower_bound,
        categories.upper_bound,
        windows.is_warming_up,
        {% for name in constant('scores_with_intervals') + components_with_intervals() %}
        windows.{{ name }}_computed_low,
        windows.{{ name }}_computed_high,
        {% endfor %}
        windows.computed_driver,
        windows.has_interval
    from scores
    left join categories using (category)
    left join windows using (agent_id_hash, as_of, window_days)

)

select
    joined.capacity_score_id,
    rules.rule,
    case rules.rule
        {% for name, expected in numbers.items() %}
        when '{{ name }}' then ({{ expected }})::text
        {% endfor %}
    end as expected,
    case rules.rule
        {% for name in numbers %}
        when '{{ name }}' then {{ name }}::text
        {% endfor %}
        {% for name, (shown, rule) in rules.items() %}
        when '{{ name }}' then {{ shown }}::text
        {% endfor %}
    end as found
from joined
cross join lateral unnest(
    array[
        {% for name in numbers.keys() | list + rules.keys() | list %}
        '{{ name }}'{% if not loop.last %},{% endif %}
        {% endfor %}
    ],
    array[
        {% for name, expected in numbers.items() %}
        abs({{ name }} - ({{ expected }})) > 1e-12 * greatest(1, abs({{ name }})),
        {% endfor %}
        {% for name, (shown, rule) in rules.items() %}
        ({{ rule }}) is not true{% if not loop.last %},{% endif %}
        {% endfor %}
    ]
) as rules (rule, is_broken)
where rules.is_broken
{% else %}
{{ untested() }}
{% endif %}
