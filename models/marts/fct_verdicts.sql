{{
  config(
    materialized='replace_range',
    meta={'range': 'as_of'},
    pre_hook="{{ set_for_heavy_work(joins_by_key=true) }}",
    indexes=[{'columns': ['as_of', 'window_days']}],
  )
}}
{#- Verdict about a permission with the threshold ciris_verdict_threshold (certainty.md §4b), by the same rule as in
    ciris_scoring.marts.verdict, and the categories of the capacity score's bounds. Grain and key: agent, as-of, window.
    Categories are null without a score. -#}
{#- Kinds of alerts that need a review even if they are not critical. -#}
{%- set reviewing_alerts = constant('alerts', {}).values() | selectattr('review', 'equalto', 'always')
    | map(attribute='id') | join("', '") -%}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        category,
        score_status
    from {{ rows_after_run('fct_capacity_scores') }}
    where {{ in_scored_range('as_of') }}

),

certainty as (

    select
        agent_id_hash,
        as_of,
        window_days,
        capacity_score_low,
        capacity_score_high,
        grant_score,
        withhold_score,
        verdict_threshold
    from {{ rows_after_run('fct_score_certainty') }}
    where {{ in_scored_range('as_of') }}

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
    from {{ rows_after_run('fct_red_flags') }}
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

classified as (

    select
        scores.*,
        certainty.grant_score,
        certainty.withhold_score,
        certainty.verdict_threshold,
        reviews.review_for,
        of_low.category as category_low,
        of_high.category as category_high
    from scores
    inner join certainty using (agent_id_hash, as_of, window_days)
    left join reviews using (agent_id_hash, as_of, window_days)
    {% for name, score in {
        'of_low': 'capacity_score_low',
        'of_high': 'capacity_score_high',
    }.items() %}
    left join {{ ref('capacity_categories') }} as {{ name }} on {{ is_in_category('certainty.' ~ score, name) }}
    {% endfor %}

)

select
    {{ surrogate_key(['agent_id_hash', epoch('as_of'), 'window_days']) }} as verdict_id,
    agent_id_hash,
    as_of,
    window_days,
    category,
    category_low,
    category_high,
    {{ category_certainty('category', 'category_low', 'category_high') }} as category_certainty,
    case
        when score_status in ('insufficient_data', 'provisional') or grant_score is null then 'wait'
        when withhold_score < verdict_threshold then 'withhold'
        when review_for is not null or category = 'high_fragility' then 'review'
        when grant_score >= verdict_threshold then 'grant'
        else 'keep'
    end as verdict,
    coalesce(review_for, '{}') as review_for,
    verdict_threshold
from classified
