{{
  config(
    materialized='incremental',
    meta={'scored_range': 'as_of'},
    indexes=[
      {'columns': ['agent_id_hash', 'window_days', 'as_of'], 'unique': true},
      {'columns': ['as_of', 'window_days']},
      {'columns': ['scored_at']},
    ],
    post_hook="{{ keep_views(this) }}",
  )
}}
{#- capacity_score = C * I_int * R * I_inc * S (section 8): the candidates that passed every blocking test.
    Grain and key: agent, as-of, window. Null with too few traces: the composites, the category and what is said about
    their certainty; without intervals: the limits. -#}
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
    confidence,
    weakest_factor,
    unmeasured_components,
    parameter_set_id,
    scored_at,
    capacity_score_low,
    capacity_score_high,
    c_score_low,
    c_score_high,
    i_int_score_low,
    i_int_score_high,
    r_score_low,
    r_score_high,
    i_inc_score_low,
    i_inc_score_high,
    s_score_low,
    s_score_high,
    category_low,
    category_high,
    category_certainty,
    interval_driver
from {{ ref('int_capacity_scores') }} as candidates -- noqa: AL05
{{ where_new_or_rewritten('candidates') }}
