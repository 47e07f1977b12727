{{ config(materialized='replace_view') }}
{#- The columns that people read first: capacity score, factors, steady score and verdict. A view of
    fct_capacity_scores, fct_score_certainty and fct_verdicts. Grain and key: agent, as-of, window. -#}
select
    scores.capacity_score_id,
    scores.agent_id_hash,
    scores.agent_name,
    scores.agent_label,
    scores.as_of,
    scores.window_days,
    scores.window_start,
    scores.n_traces,
    scores.capacity_score,
    certainty.capacity_score_low,
    certainty.capacity_score_high,
    scores.category,
    verdicts.category_low,
    verdicts.category_high,
    verdicts.category_certainty,
    certainty.interval_driver,
    scores.score_status,
    scores.confidence,
    scores.weakest_factor,
    scores.unmeasured_components,
    {% for factor in ['c_score', 'i_int_score', 'r_score', 'i_inc_score', 's_score'] %}
    scores.{{ factor }},
    {% endfor %}
    certainty.capacity_score_steady,
    certainty.capacity_score_steady_low,
    certainty.capacity_score_steady_high,
    certainty.probability_at_threshold,
    certainty.grant_score,
    certainty.withhold_score,
    verdicts.verdict,
    verdicts.review_for,
    verdicts.verdict_threshold,
    scores.parameter_set_id,
    scores.scored_at,
    scores.last_traced_at,
    scores.last_scored_as_of,
    scores.last_capacity_score,
    verdicts.last_verdict
from {{ ref('fct_capacity_scores') }} as scores
left join {{ ref('fct_score_certainty') }} as certainty
    on
        scores.agent_id_hash = certainty.agent_id_hash
        and scores.as_of = certainty.as_of
        and scores.window_days = certainty.window_days
left join {{ ref('fct_verdicts') }} as verdicts
    on
        scores.agent_id_hash = verdicts.agent_id_hash
        and scores.as_of = verdicts.as_of
        and scores.window_days = verdicts.window_days
