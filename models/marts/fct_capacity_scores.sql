{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work() }}",
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['scored_at']}],
  )
}}
{#- capacity_score = C * max(I_int, integrity_floor) * R * I_inc * S, with status, category and confidence (scoring.md
    §8). A row also has all components, confidence bounds and losses (certainty.md §1 and §3), and the verdict
    (certainty.md §4b), which depends on the alerts and red flags of the same as-of. The model computes the factors by
    the macros of the factor views, so that it reads int_windows only once. Grain and key: agent, as-of, window. The
    composite scores and the category are null with too few traces. -#}
{#- Kinds of alerts that need a review even if they are not critical. -#}
{%- set reviewing_alerts = constant('alerts', {}).values() | selectattr('review', 'equalto', 'always')
    | map(attribute='id') | join("', '") -%}
with scoring_run as (

    select parameter_set_id
    from {{ ref('int_scoring_run') }}

),

agents as (

    select
        agent_id_hash,
        agent_label
    from {{ ref('int_agents') }}

),

raised as (

    select
        agent_id_hash,
        as_of,
        window_days,
        kind as reason,
        case when severity = 'critical' then 1 else 2 end as priority
    from {{ rows_after_run('fct_capacity_alerts') }}
    where
        {{ in_scored_range('as_of') }}
        and (
            kind in ('{{ reviewing_alerts }}')
            or severity = 'critical'
        )

    union

    select
        agent_id_hash,
        as_of,
        window_days,
        red_flag as reason,
        3 as priority
    from {{ rows_after_run('fct_record_signs') }}
    where {{ in_scored_range('as_of') }}

),

reviews as (

    select
        agent_id_hash,
        as_of,
        window_days,
        array_agg(reason order by priority, reason collate "C") as review_for
    from raised
    group by
        agent_id_hash,
        as_of,
        window_days

),

factors as (

    select
        agent_id_hash,
        agent_name,
        first_traced_at,
        as_of,
        window_days,
        window_start,
        n_traces::integer as n_traces,
        n_traces >= {{ scoring_parameter('min_traces') }} as has_enough_traces,
        {{ factor_columns() }},
        {% for score in constant('scores_with_intervals') %}
        {{ score }}_low,
        {{ score }}_high,
        {% endfor %}
        {% for column in component_bound_columns() %}
        {{ column }},
        {% endfor %}
        {% for loss_component in loss_components() %}
        {{ loss_component }}_loss,
        {% endfor %}
        c_score_steady,
        i_int_score_steady,
        s_score_steady,
        interval_driver,
        computed_at
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

-- Optimization barrier. Without it PostgreSQL would compute the composite scores again for each lookup of a category.
composed as (

    select
        *,
        case when has_enough_traces then {{ capacity_score(
            'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score'
        ) }} end as capacity_score,
        case when has_enough_traces then {{ capacity_score_geometric(
            'c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score'
        ) }} end as capacity_score_geometric,
        case when has_enough_traces then {{ capacity_score(
            'c_score_steady', 'i_int_score_steady', 'r_score_steady', 'i_inc_score_steady', 's_score_steady'
        ) }} end as capacity_score_steady
    from factors
    {{ optimization_barrier() }} -- noqa: AM09

),

bounded as (

    select
        *,
        {% for score in ['capacity_score', 'capacity_score_steady'] %}
        {{ low_bound(score ~ '_low', score) }} as lowest_{{ score }},
        {{ high_bound(score ~ '_high', score) }} as highest_{{ score }},
        {% endfor %}
        {% for column, probability in {
            'grant_score': valid_setting('grant_probability'), 'withhold_score': valid_setting('withhold_probability')
        }.items() %}
        {{ score_reached(
            'capacity_score_steady', 'capacity_score_steady_high', 'r_ceiling_loss', probability
        ) }} as {{ column }},
        {% endfor %}
        {{ logarithmic_mean('capacity_score', 'capacity_score_steady') }} as points_per_loss
    from composed

),

classified as (

    select
        bounded.*,
        scoring_run.parameter_set_id,
        agents.agent_label,
        reviews.review_for,
        of_score.category,
        of_lowest.category as category_low,
        of_highest.category as category_high,
        of_steady.category as category_steady,
        of_lowest_steady.category as category_steady_low,
        of_highest_steady.category as category_steady_high,
        case
            when not bounded.has_enough_traces then 'insufficient_data'
            when bounded.first_traced_at > bounded.window_start - {{ days(scoring_parameter('warm_up_days')) }}
                then 'provisional'
            else 'final'
        end as score_status
    from bounded
    cross join scoring_run
    left join agents on bounded.agent_id_hash = agents.agent_id_hash
    left join reviews
        on
            bounded.agent_id_hash = reviews.agent_id_hash
            and bounded.as_of = reviews.as_of
            and bounded.window_days = reviews.window_days
    {% for name, score in {
        'of_score': 'capacity_score',
        'of_lowest': 'lowest_capacity_score',
        'of_highest': 'highest_capacity_score',
        'of_steady': 'capacity_score_steady',
        'of_lowest_steady': 'lowest_capacity_score_steady',
        'of_highest_steady': 'highest_capacity_score_steady',
    }.items() %}
    left join {{ ref('capacity_categories') }} as {{ name }} on {{ is_in_category('bounded.' ~ score, name) }}
    {% endfor %}

)

select
    {{ surrogate_key(['agent_id_hash', epoch('as_of'), 'window_days']) }} as capacity_score_id,
    agent_id_hash,
    agent_name,
    agent_label,
    as_of,
    window_days,
    window_start,
    n_traces,
    c_score,
    i_int_score,
    r_score,
    i_inc_score,
    s_score,
    capacity_score,
    capacity_score_geometric,
    {{ fragility_index('capacity_score') }} as fragility_index,
    category,
    score_status,
    {{ confidence_level('n_traces') }} as confidence,
    {{ weakest_factor('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as weakest_factor,
    array_remove(array[
        case when not is_replay_measured then 'i_replay' end,
        case when not is_drift_measured then 'delta_drift' end,
        case when not is_ece_measured then 'ece' end,
        case when not is_s_measured then 's_score' end
    ], null) as unmeasured_components,
    parameter_set_id,
    computed_at as scored_at,
    {% for name in constant('scores_with_intervals') + components_with_intervals() %}
    {{ low_bound(name ~ '_low', name) }} as {{ name }}_low,
    {{ high_bound(name ~ '_high', name) }} as {{ name }}_high,
    {% endfor %}
    {% for component in components_with_design_effect() %}
    {{ component }}_design_effect,
    {% endfor %}
    category_low,
    category_high,
    {{ category_certainty('category', 'category_low', 'category_high') }} as category_certainty,
    interval_driver,
    capacity_score_steady,
    category_steady,
    category_steady_low,
    category_steady_high,
    {{ category_certainty('category_steady', 'category_steady_low', 'category_steady_high') }}
    as category_steady_certainty,
    r_score_steady,
    i_inc_score_steady,
    mttr_hours_steady,
    n_steady_episodes,
    q_deferral_steady,
    n_steady_deferrals,
    case
        when capacity_score_steady is null then null
        when least(capacity_score, capacity_score_steady) > 0 then (ln(r_score_steady) - ln(r_score)) * points_per_loss
        else 0
    end as mttr_hours_steady_minus_weekly,
    case
        when capacity_score_steady is null then null
        when least(capacity_score, capacity_score_steady) > 0
            then (ln(expected_q_deferral) - ln(q_deferral)) * points_per_loss
        when (q_deferral = 0) <> (expected_q_deferral = 0) then capacity_score_steady - capacity_score
        else 0
    end as q_deferral_steady_minus_weekly,
    case when capacity_score_steady is null then 'too_few_traces' end as steady_missing_because,
    {% for component in components() %}
    {{ component }},
    {% endfor %}
    {% for loss_component in loss_components() %}
    {{ loss_component }}_loss,
    {% endfor %}
    {{ verdict(
        valid_setting('verdict_threshold'), 'grant_score', 'withhold_score', 'score_status',
        "review_for is not null or category = 'high_fragility'"
    ) }} as verdict,
    coalesce(review_for, '{}') as review_for,
    {{ valid_setting('verdict_threshold') }}::double precision as verdict_threshold,
    {{ probability_reached(
        'capacity_score_steady', 'capacity_score_steady_high', 'r_ceiling_loss', valid_setting('verdict_threshold')
    ) }} as probability_at_threshold,
    grant_score,
    withhold_score,
    c_score_steady,
    i_int_score_steady,
    s_score_steady
from classified
