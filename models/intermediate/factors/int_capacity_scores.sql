{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'as_of', 'range_opens': '>', 'also_replaced_by': 'capacity_score_id'},
    indexes=[
      {'columns': ['agent_id_hash', 'window_days', 'as_of']},
      {'columns': ['as_of', 'window_days']},
      {'columns': ['scored_at']},
      {'columns': ['capacity_score_id']},
    ],
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    post_hook="{{ update_statistics() }}",
  )
}}
{#- Grain: one row per agent, as-of and window: the candidates, complete in all five factors, with every component.
    The gate: the blocking tests end here, and every mart descends from this model. An increment takes the as-ofs
    that the run scores, and older rows that were still waiting for the Python step when their turn came, or that have not
    been published since. -#}
{%- set in_reach = 'as_of ' ~ since_oldest_candidate() %}
with scoring_run as (

    select parameter_set_id
    from {{ ref('int_scoring_run') }}

),

resilience as (

    select
        resilience.resilience_id,
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
        resilience.r_score
    from {{ ref('int_resilience') }} as resilience
    {% if is_incremental() %}
    where
        resilience.{{ in_reach }}
        and (
            {{ is_rewritten('resilience.as_of', '>') }}
            or not exists (
                select 1
                from {{ this }} as scored
                where
                    scored.agent_id_hash = resilience.agent_id_hash
                    and scored.as_of = resilience.as_of
                    and scored.window_days = resilience.window_days
                    and scored.scored_at <= (select run.last_published_at from {{ ref('int_scoring_run') }} as run)
            )
        )
    {% endif %}

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
        i_inc_score
    from {{ ref('int_incompleteness_awareness') }}
    where {{ in_reach }}

),

sustained_coherence as (

    select
        agent_id_hash,
        as_of,
        window_days,
        sigma,
        n_signals,
        is_s_measured,
        s_score
    from {{ ref('int_sustained_coherence') }}
    where {{ in_reach }}

),

scored as (

    select
        resilience.resilience_id as capacity_score_id,
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
        incompleteness_awareness.ece,
        incompleteness_awareness.q_deferral,
        incompleteness_awareness.n_judged_deferrals,
        incompleteness_awareness.u_unsafe,
        incompleteness_awareness.i_inc_score,
        sustained_coherence.sigma,
        sustained_coherence.n_signals,
        sustained_coherence.s_score,
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

),

composed as (

    select
        *,
        n_traces >= {{ scoring_parameter('min_traces') }} as has_enough_traces,
        {{ capacity_score('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as capacity_product,
        {{ capacity_score_geometric('c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score') }} as capacity_mean
    from scored

),

classified as (

    select
        composed.*,
        case when composed.has_enough_traces then composed.capacity_product end as capacity_score,
        case when composed.has_enough_traces then composed.capacity_mean end as capacity_score_geometric,
        case
            when composed.has_enough_traces then {{ fragility_index('composed.capacity_product') }}
        end as fragility_index,
        case when composed.has_enough_traces then categories.category end as category,
        case
            when not composed.has_enough_traces then 'insufficient_data'
            when composed.first_traced_at > composed.window_start - {{ days(scoring_parameter('warm_up_days')) }}
                then 'provisional'
            else 'final'
        end as score_status
    from composed
    left join {{ ref('capacity_categories') }} as categories
        on
            (categories.lower_bound is null or composed.capacity_product >= categories.lower_bound)
            and (categories.upper_bound is null or composed.capacity_product < categories.upper_bound)

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
    now() as scored_at
from classified
cross join scoring_run
