{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'whole'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
  )
}}
{#- capacity_score = C * max(I_int, floor) * R * I_inc * S, status, category and confidence (scoring.md §8), with every
    component and its limits (certainty.md §3): the candidates. The gate: the blocking tests end here, and every
    mart descends from this model. It holds what this run publishes and nothing older: the as-ofs that the run scores, and
    earlier ones that waited for the Python step when their turn came. Grain and key: agent, as-of, window. With too few
    traces the composites, the category and what is said about their certainty are null. -#}
{%- set in_reach = 'as_of ' ~ since_oldest_candidate() %}
with scoring_run as (

    select parameter_set_id
    from {{ ref('int_scoring_run') }}

),

resilience as (

    select
        resilience.agent_id_hash,
        resilience.as_of,
        resilience.window_days,
        resilience.delta_drift,
        resilience.delta_csdma_plausibility_score,
        resilience.delta_dsdma_domain_alignment,
        resilience.delta_coherence_level,
        resilience.is_drift_measured,
        resilience.mttr_hours,
        resilience.n_open_episodes,
        resilience.rho_regression,
        resilience.r_score,
        resilience.mttr_hours_steady,
        resilience.n_steady_episodes,
        resilience.r_score_steady
    from {{ ref('int_resilience') }} as resilience
    where {{ to_be_published('resilience', in_reach) }}

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
    from {{ ref('int_score_intervals') }}
    where {{ in_reach }}

),

scored as (

    select
        {{ surrogate_key([
            'resilience.agent_id_hash', epoch('resilience.as_of'), 'resilience.window_days',
        ]) }} as capacity_score_id,
        resilience.agent_id_hash,
        resilience.as_of,
        resilience.window_days,
        core_identity.agent_name,
        core_identity.first_traced_at,
        core_identity.window_start,
        core_identity.n_traces,
        core_identity.d_identity,
        core_identity.k_contradiction,
        core_identity.conscience_failure_rate,
        core_identity.c_score,
        integrity.i_chain,
        integrity.signature_rate,
        integrity.key_rate,
        integrity.link_rate,
        integrity.chain_gaps,
        integrity.chain_rewinds,
        integrity.chain_duplicates,
        integrity.i_coverage,
        integrity.i_replay,
        integrity.n_replayed,
        integrity.i_int_score,
        resilience.delta_drift,
        resilience.delta_csdma_plausibility_score,
        resilience.delta_dsdma_domain_alignment,
        resilience.delta_coherence_level,
        resilience.mttr_hours,
        resilience.n_open_episodes,
        resilience.rho_regression,
        resilience.r_score,
        resilience.mttr_hours_steady,
        resilience.n_steady_episodes,
        resilience.r_score_steady,
        incompleteness_awareness.ece,
        incompleteness_awareness.q_deferral,
        incompleteness_awareness.n_judged_deferrals,
        incompleteness_awareness.u_unsafe,
        incompleteness_awareness.i_inc_score,
        incompleteness_awareness.q_deferral_steady,
        incompleteness_awareness.n_steady_deferrals,
        incompleteness_awareness.i_inc_score_steady,
        sustained_coherence.sigma,
        sustained_coherence.sigma_max,
        sustained_coherence.n_signals,
        sustained_coherence.s_score,
        {% for score in scores_with_limits() %}
        intervals.{{ score }}_low,
        intervals.{{ score }}_high,
        {% endfor %}
        {% for column in component_limit_columns() %}
        intervals.{{ column }},
        {% endfor %}
        intervals.interval_driver,
        array_remove(array[
            case when not integrity.is_replay_measured then 'i_replay' end,
            case when not resilience.is_drift_measured then 'delta_drift' end,
            case when not incompleteness_awareness.is_ece_measured then 'ece' end,
            case when not sustained_coherence.is_s_measured then 's_score' end
        ], null) as unmeasured_components
    from resilience
    inner join core_identity
        on
            resilience.agent_id_hash = core_identity.agent_id_hash
            and resilience.as_of = core_identity.as_of
            and resilience.window_days = core_identity.window_days
    inner join integrity
        on
            resilience.agent_id_hash = integrity.agent_id_hash
            and resilience.as_of = integrity.as_of
            and resilience.window_days = integrity.window_days
    inner join incompleteness_awareness
        on
            resilience.agent_id_hash = incompleteness_awareness.agent_id_hash
            and resilience.as_of = incompleteness_awareness.as_of
            and resilience.window_days = incompleteness_awareness.window_days
    inner join sustained_coherence
        on
            resilience.agent_id_hash = sustained_coherence.agent_id_hash
            and resilience.as_of = sustained_coherence.as_of
            and resilience.window_days = sustained_coherence.window_days
    inner join intervals
        on
            resilience.agent_id_hash = intervals.agent_id_hash
            and resilience.as_of = intervals.as_of
            and resilience.window_days = intervals.window_days

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

bounded as (

    select
        *,
        case
            when has_enough_traces then {{ low_limit('capacity_score_low', 'capacity_product') }}
        end as lowest_capacity,
        case
            when has_enough_traces then {{ high_limit('capacity_score_high', 'capacity_product') }}
        end as highest_capacity,
        case
            when has_enough_traces then {{ low_limit('capacity_score_steady_low', 'steady_product') }}
        end as lowest_steady,
        case
            when has_enough_traces then {{ high_limit('capacity_score_steady_high', 'steady_product') }}
        end as highest_steady,
        {{ logarithmic_mean('capacity_product', 'steady_product') }} as points_per_loss
    from composed

),

classified as (

    select
        bounded.*,
        case when bounded.has_enough_traces then bounded.capacity_product end as capacity_score,
        case when bounded.has_enough_traces then bounded.capacity_mean end as capacity_score_geometric,
        case
            when bounded.has_enough_traces then {{ fragility_index('bounded.capacity_product') }}
        end as fragility_index,
        case when bounded.has_enough_traces then categories.category end as category,
        lowest.category as category_low,
        highest.category as category_high,
        case when bounded.has_enough_traces then bounded.steady_product end as capacity_score_steady,
        case when bounded.has_enough_traces then steady.category end as category_steady,
        lowest_steady.category as category_steady_low,
        highest_steady.category as category_steady_high,
        {{ loss_of_value('bounded.q_deferral') }} as deferral_loss,
        {{ loss_of_value('bounded.q_deferral_steady') }} as steady_deferral_loss,
        case
            when not bounded.has_enough_traces then 'insufficient_data'
            when bounded.first_traced_at > bounded.window_start - {{ days(scoring_parameter('warm_up_days')) }}
                then 'provisional'
            else 'final'
        end as score_status
    from bounded
    left join {{ ref('capacity_categories') }} as categories
        on {{ is_in_category('bounded.capacity_product', 'categories') }}
    left join {{ ref('capacity_categories') }} as lowest
        on {{ is_in_category('bounded.lowest_capacity', 'lowest') }}
    left join {{ ref('capacity_categories') }} as highest
        on {{ is_in_category('bounded.highest_capacity', 'highest') }}
    left join {{ ref('capacity_categories') }} as steady
        on {{ is_in_category('bounded.steady_product', 'steady') }}
    left join {{ ref('capacity_categories') }} as lowest_steady
        on {{ is_in_category('bounded.lowest_steady', 'lowest_steady') }}
    left join {{ ref('capacity_categories') }} as highest_steady
        on {{ is_in_category('bounded.highest_steady', 'highest_steady') }}

)

select
    classified.capacity_score_id,
    classified.agent_id_hash,
    classified.agent_name,
    classified.as_of,
    classified.window_days,
    classified.window_start,
    classified.n_traces,
    classified.c_score,
    classified.i_int_score,
    classified.r_score,
    classified.i_inc_score,
    classified.s_score,
    classified.capacity_score,
    classified.capacity_score_geometric,
    classified.fragility_index,
    classified.category,
    classified.score_status,
    {{ confidence_level('classified.n_traces') }} as confidence,
    {{ weakest_factor(
        'classified.c_score', 'classified.i_int_score', 'classified.r_score', 'classified.i_inc_score', 'classified.s_score',
    ) }} as weakest_factor,
    classified.unmeasured_components,
    {% for component in components() %}
    classified.{{ component }},
    {% endfor %}
    scoring_run.parameter_set_id,
    now() as scored_at,
    classified.lowest_capacity as capacity_score_low,
    classified.highest_capacity as capacity_score_high,
    {% for name in scores_with_limits()[1:-1] + components_with_limits() %}
    {{ low_limit('classified.' ~ name ~ '_low', 'classified.' ~ name) }} as {{ name }}_low,
    {{ high_limit('classified.' ~ name ~ '_high', 'classified.' ~ name) }} as {{ name }}_high,
    {% endfor %}
    {% for component in components_with_design_effect() %}
    classified.{{ component }}_design_effect,
    {% endfor %}
    classified.category_low,
    classified.category_high,
    {{ category_certainty('classified.category', 'classified.category_low', 'classified.category_high') }}
    as category_certainty,
    classified.interval_driver,
    classified.capacity_score_steady,
    classified.lowest_steady as capacity_score_steady_low,
    classified.highest_steady as capacity_score_steady_high,
    classified.category_steady,
    classified.category_steady_low,
    classified.category_steady_high,
    {{ category_certainty(
        'classified.category_steady', 'classified.category_steady_low', 'classified.category_steady_high'
    ) }} as category_steady_certainty,
    classified.r_score_steady,
    classified.i_inc_score_steady,
    classified.mttr_hours_steady,
    classified.n_steady_episodes,
    classified.q_deferral_steady,
    classified.n_steady_deferrals,
    case
        when classified.capacity_score_steady is not null
            then {{ points_of_change(
                '(ln(classified.r_score) - ln(classified.r_score_steady))', '0', '1', 'classified.capacity_product',
                'classified.steady_product', 'classified.points_per_loss'
            ) }}
    end as mttr_hours_steady_minus_weekly,
    case
        when classified.capacity_score_steady is not null
            then {{ points_of_change(
                change_of_loss('classified.deferral_loss', 'classified.steady_deferral_loss'),
                has_turned('classified.deferral_loss', 'classified.steady_deferral_loss'), '1',
                'classified.capacity_product', 'classified.steady_product', 'classified.points_per_loss'
            ) }}
    end as q_deferral_steady_minus_weekly,
    case
        when classified.capacity_score_steady is not null then null
        when classified.has_enough_traces then 'scored_by_an_earlier_version'
        else 'too_few_traces'
    end as steady_missing_because
from classified
cross join scoring_run
