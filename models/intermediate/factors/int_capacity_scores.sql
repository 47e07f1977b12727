{{
  config(
    materialized='replace_range',
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- capacity_score = C * max(I_int, floor) * R * I_inc * S, status, category and confidence (scoring.md §8), with every
    component and its limits (certainty.md §3): the candidates. The gate: the blocking tests end here, and every
    mart descends from this model. It holds the as-ofs that this run scores and nothing older. Grain and key: agent,
    as-of, window. With too few traces the composites, the category and what is said about their certainty are null. -#}
{%- set in_reach = in_scored_range('as_of') %}
with scoring_run as (

    select parameter_set_id
    from {{ ref('int_scoring_run') }}

),

resilience as (

    select
        agent_id_hash,
        as_of,
        window_days,
        delta_drift,
        delta_csdma_plausibility_score,
        delta_dsdma_domain_alignment,
        delta_coherence_level,
        is_drift_measured,
        mttr_hours,
        n_open_episodes,
        rho_regression,
        r_score,
        mttr_hours_steady,
        n_steady_episodes,
        r_score_steady
    from {{ ref('int_resilience') }}
    where {{ in_reach }}

),

core_identity as (

    select
        agent_id_hash,
        agent_name,
        first_traced_at,
        as_of,
        window_days,
        window_start,
        n_traces,
        d_identity,
        k_contradiction,
        conscience_failure_rate,
        c_score
    from {{ ref('int_core_identity') }}
    where {{ in_reach }}

),

integrity as (

    select
        agent_id_hash,
        as_of,
        window_days,
        i_chain,
        signature_rate,
        key_rate,
        link_rate,
        chain_gaps,
        chain_rewinds,
        chain_duplicates,
        i_coverage,
        i_replay,
        is_replay_measured,
        n_replayed,
        i_int_score
    from {{ ref('int_integrity') }}
    where {{ in_reach }}

),

incompleteness_awareness as (

    select
        agent_id_hash,
        as_of,
        window_days,
        ece,
        is_ece_measured,
        q_deferral,
        n_judged_deferrals,
        u_unsafe,
        i_inc_score,
        q_deferral_steady,
        n_steady_deferrals,
        i_inc_score_steady
    from {{ ref('int_incompleteness_awareness') }}
    where {{ in_reach }}

),

sustained_coherence as (

    select
        agent_id_hash,
        as_of,
        window_days,
        sigma,
        sigma_max,
        n_signals,
        is_s_measured,
        s_score
    from {{ ref('int_sustained_coherence') }}
    where {{ in_reach }}

),

intervals as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for score in scores_with_limits() %}
        {{ score }}_low,
        {{ score }}_high,
        {% endfor %}
        {% for column in component_limit_columns() %}
        {{ column }},
        {% endfor %}
        interval_driver
    from {{ ref('int_windows') }}
    where {{ in_reach }}

),

scored as (

    select
        {{ surrogate_key(['agent_id_hash', epoch('as_of'), 'window_days']) }} as capacity_score_id,
        *, -- noqa: RF02
        array_remove(array[
            case when not integrity.is_replay_measured then 'i_replay' end,
            case when not resilience.is_drift_measured then 'delta_drift' end,
            case when not incompleteness_awareness.is_ece_measured then 'ece' end,
            case when not sustained_coherence.is_s_measured then 's_score' end
        ], null) as unmeasured_components
    from resilience
    inner join core_identity using (agent_id_hash, as_of, window_days)
    inner join integrity using (agent_id_hash, as_of, window_days)
    inner join incompleteness_awareness using (agent_id_hash, as_of, window_days)
    inner join sustained_coherence using (agent_id_hash, as_of, window_days)
    inner join intervals using (agent_id_hash, as_of, window_days)
    cross join scoring_run

),

composed as (

    select
        *,
        n_traces >= {{ scoring_parameter('min_traces') }} as has_enough_traces,
        {{ capacity_score('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as capacity_product,
        {{ capacity_score_geometric('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as capacity_mean,
        {{ capacity_score(
            'c_score', 'i_int_score', 'r_score_steady', 'i_inc_score_steady', 's_score'
        ) }} as steady_product
    from scored

),

-- Fenced: the bounds are looked up among the categories below.
bounded as (

    select
        {{ fence_column('bounded') }}
        *,
        {% for score, product in [
            ('capacity_score', 'capacity_product'), ('capacity_score_steady', 'steady_product'),
        ] %}
        case when has_enough_traces then {{ low_limit(score ~ '_low', product) }} end as lowest_{{ product }},
        case when has_enough_traces then {{ high_limit(score ~ '_high', product) }} end as highest_{{ product }},
        {% endfor %}
        {{ logarithmic_mean('capacity_product', 'steady_product') }} as points_per_loss
    from composed
    {{ fence() }} -- noqa: AM09

),

classified as (

    select
        bounded.*,
        case when bounded.has_enough_traces then bounded.capacity_product end as capacity_score,
        case when bounded.has_enough_traces then bounded.capacity_mean end as capacity_score_geometric,
        case
            when bounded.has_enough_traces then {{ fragility_index('bounded.capacity_product') }}
        end as fragility_index,
        case when bounded.has_enough_traces then of_score.category end as category,
        of_lowest.category as category_low,
        of_highest.category as category_high,
        case when bounded.has_enough_traces then bounded.steady_product end as capacity_score_steady,
        case when bounded.has_enough_traces then of_steady.category end as category_steady,
        of_lowest_steady.category as category_steady_low,
        of_highest_steady.category as category_steady_high,
        {{ worth_of_deferrals('bounded.q_deferral_steady', 'bounded.n_steady_deferrals', 'bounded.window_days') }}
        as worth_of_steady_deferrals,
        case
            when not bounded.has_enough_traces then 'insufficient_data'
            when bounded.first_traced_at > bounded.window_start - {{ days(scoring_parameter('warm_up_days')) }}
                then 'provisional'
            else 'final'
        end as score_status
    from bounded
    {% for name, score in {
        'of_score': 'capacity_product',
        'of_lowest': 'lowest_capacity_product',
        'of_highest': 'highest_capacity_product',
        'of_steady': 'steady_product',
        'of_lowest_steady': 'lowest_steady_product',
        'of_highest_steady': 'highest_steady_product',
    }.items() %}
    left join {{ ref('capacity_categories') }} as {{ name }} on {{ is_in_category('bounded.' ~ score, name) }}
    {% endfor %}

)

select
    capacity_score_id,
    agent_id_hash,
    agent_name,
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
    fragility_index,
    category,
    score_status,
    {{ confidence_level('n_traces') }} as confidence,
    {{ weakest_factor('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as weakest_factor,
    unmeasured_components,
    {% for component in components() %}
    {{ component }},
    {% endfor %}
    parameter_set_id,
    now() as scored_at,
    lowest_capacity_product as capacity_score_low,
    highest_capacity_product as capacity_score_high,
    {% for name in scores_with_limits()[1:-1] + components_with_limits() %}
    {{ low_limit(name ~ '_low', name) }} as {{ name }}_low,
    {{ high_limit(name ~ '_high', name) }} as {{ name }}_high,
    {% endfor %}
    {% for component in components_with_design_effect() %}
    {{ component }}_design_effect,
    {% endfor %}
    category_low,
    category_high,
    {{ category_certainty('category', 'category_low', 'category_high') }} as category_certainty,
    interval_driver,
    capacity_score_steady,
    lowest_steady_product as capacity_score_steady_low,
    highest_steady_product as capacity_score_steady_high,
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
        when least(capacity_product, steady_product) > 0 then (ln(r_score_steady) - ln(r_score)) * points_per_loss
        else 0
    end as mttr_hours_steady_minus_weekly,
    case
        when capacity_score_steady is null then null
        when least(capacity_product, steady_product) > 0
            then (ln(worth_of_steady_deferrals) - ln(q_deferral)) * points_per_loss
        when (q_deferral = 0) <> (worth_of_steady_deferrals = 0) then steady_product - capacity_product
        else 0
    end as q_deferral_steady_minus_weekly,
    case when capacity_score_steady is null then 'too_few_traces' end as steady_missing_because
from classified
