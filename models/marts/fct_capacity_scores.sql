{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['scored_at']}],
  )
}}
{#- capacity_score = C * I_int * R * I_inc * S (scoring.md §8): the candidates that passed every blocking test.
    The verdict needs the alerts and signs at the same as-of, so that these are judged before.
    Grain and key: agent, as-of, window. Null with too few traces: the composites, the category and what is said about
    their certainty; without intervals: the limits. -#}
-- depends_on: {{ ref('int_scoring_run') }}
with agents as (

    select
        agent_id_hash,
        agent_label
    from {{ ref('int_agents') }}

),

losses as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for part in attributed_parts() %}
        {{ part }}_loss{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_windows') }}
    where {{ in_scored_range('as_of') }}

),

raised as (

    select
        agent_id_hash,
        as_of,
        window_days,
        kind as reason,
        case when severity = 'critical' then 1 else 2 end as place
    from {{ rows_after_run('fct_capacity_alerts') }}
    where
        {{ in_scored_range('as_of') }}
        and (
            kind in ({{ reviewing_alerts() }})
            or severity = 'critical'
        )

    union

    select
        agent_id_hash,
        as_of,
        window_days,
        sign as reason,
        3 as place
    from {{ ref('int_record_signs') }}
    where {{ in_scored_range('as_of') }}

),

reviews as (

    select
        agent_id_hash,
        as_of,
        window_days,
        array_agg(reason order by place, reason collate "C") as review_for
    from raised
    group by
        agent_id_hash,
        as_of,
        window_days

)

select
    candidates.capacity_score_id,
    candidates.agent_id_hash,
    candidates.agent_name,
    candidates.as_of,
    candidates.window_days,
    candidates.window_start,
    candidates.n_traces,
    candidates.c_score,
    candidates.i_int_score,
    candidates.r_score,
    candidates.i_inc_score,
    candidates.s_score,
    candidates.capacity_score,
    candidates.capacity_score_geometric,
    candidates.fragility_index,
    candidates.category,
    candidates.score_status,
    candidates.confidence,
    candidates.weakest_factor,
    candidates.unmeasured_components,
    candidates.parameter_set_id,
    candidates.scored_at,
    candidates.capacity_score_low,
    candidates.capacity_score_high,
    candidates.c_score_low,
    candidates.c_score_high,
    candidates.i_int_score_low,
    candidates.i_int_score_high,
    candidates.r_score_low,
    candidates.r_score_high,
    candidates.i_inc_score_low,
    candidates.i_inc_score_high,
    candidates.s_score_low,
    candidates.s_score_high,
    candidates.category_low,
    candidates.category_high,
    candidates.category_certainty,
    candidates.interval_driver,
    agents.agent_label,
    candidates.capacity_score_steady,
    candidates.capacity_score_steady_low,
    candidates.capacity_score_steady_high,
    candidates.category_steady,
    candidates.category_steady_low,
    candidates.category_steady_high,
    candidates.category_steady_certainty,
    candidates.r_score_steady,
    candidates.i_inc_score_steady,
    candidates.mttr_hours_steady,
    candidates.n_steady_episodes,
    candidates.q_deferral_steady,
    candidates.n_steady_deferrals,
    candidates.mttr_hours_steady_minus_weekly,
    candidates.q_deferral_steady_minus_weekly,
    candidates.steady_missing_because,
    {% for column in components() + component_limit_columns() %}
    candidates.{{ column }},
    {% endfor %}
    {{ verdict(
        verdict_threshold(), 'candidates.capacity_score_steady_low', 'candidates.capacity_score_steady_high',
        'candidates.score_status', 'reviews.review_for is not null'
    ) }} as verdict,
    coalesce(reviews.review_for, '{}') as review_for,
    {% for part in attributed_parts() %}
    losses.{{ part }}_loss,
    {% endfor %}
    {{ verdict_threshold() }}::double precision as verdict_threshold
from {{ ref('int_capacity_scores') }} as candidates
inner join losses
    on
        candidates.agent_id_hash = losses.agent_id_hash
        and candidates.as_of = losses.as_of
        and candidates.window_days = losses.window_days
left join agents on candidates.agent_id_hash = agents.agent_id_hash
left join reviews
    on
        candidates.agent_id_hash = reviews.agent_id_hash
        and candidates.as_of = reviews.as_of
        and candidates.window_days = reviews.window_days
