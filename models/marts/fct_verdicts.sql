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
    Categories are null without a score. The columns fragile_... are null if the category is not high_fragility in this
    window or a shorter one. -#}
{#- Kinds of alerts that need a review even if they are not critical, and kinds whose critical alerts suspend. -#}
{%- set kinds = constant('alerts', {}).values() -%}
{%- set reviewing_alerts = kinds | selectattr('review', 'equalto', 'always') | map(attribute='id') | join("', '") -%}
{%- set suspending_alerts = kinds | selectattr('suspends') | map(attribute='id') | join("', '") -%}
with scores as (

    select
        agent_id_hash,
        as_of,
        window_days,
        agent_label,
        capacity_score,
        category,
        score_status,
        last_scored_as_of
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
        withhold_score
    from {{ rows_after_run('fct_score_certainty') }}
    where {{ in_scored_range('as_of') }}

),

raised as (

    select
        agent_id_hash,
        as_of,
        window_days,
        kind as reason,
        case when severity = 'critical' then 1 else 2 end as priority,
        severity = 'critical'
        and kind in ('{{ suspending_alerts }}') as is_suspending,
        kind = 'silent' as is_silence
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
        3 as priority,
        false as is_suspending,
        false as is_silence
    from {{ rows_after_run('fct_red_flags') }}
    where {{ in_scored_range('as_of') }}

),

reviews as (

    select
        agent_id_hash,
        as_of,
        window_days,
        array_agg(reason order by priority, reason collate "C") as review_for,
        bool_or(is_suspending) as is_suspended,
        bool_or(is_silence) as is_silent
    from raised
    group by
        agent_id_hash,
        as_of,
        window_days

),

-- A row without a trace has no certainty.
bounded as (

    select
        scores.*,
        certainty.capacity_score_low,
        certainty.capacity_score_high,
        certainty.grant_score,
        certainty.withhold_score,
        {{ valid_setting('verdict_threshold') }}::double precision as verdict_threshold
    from scores
    left join certainty using (agent_id_hash, as_of, window_days)

),

-- High Fragility in the window of the permission or in a shorter one, with the lowest upper bound.
fragile as (

    select distinct on (longer.agent_id_hash, longer.as_of, longer.window_days)
        longer.agent_id_hash,
        longer.as_of,
        longer.window_days,
        fragile.window_days as fragile_window_days,
        fragile.capacity_score_high as fragile_score_high
    from bounded as longer
    inner join bounded as fragile
        on
            longer.agent_id_hash = fragile.agent_id_hash
            and longer.as_of = fragile.as_of
            and longer.window_days >= fragile.window_days
    where fragile.category = 'high_fragility'
    order by
        longer.agent_id_hash asc,
        longer.as_of asc,
        longer.window_days asc,
        fragile.capacity_score_high asc,
        fragile.window_days asc

),

classified as (

    select
        bounded.*,
        reviews.review_for,
        -- The window of a silent agent has fewer traces each day. That must not make a verdict better.
        coalesce(
            reviews.is_suspended
            or (reviews.is_silent and (bounded.capacity_score is null or fragile.fragile_window_days is not null)),
            false
        ) as is_suspended,
        fragile.fragile_window_days,
        fragile.fragile_score_high,
        of_low.category as category_low,
        of_high.category as category_high
    from bounded
    left join reviews using (agent_id_hash, as_of, window_days)
    left join fragile using (agent_id_hash, as_of, window_days)
    {% for name, score in {
        'of_low': 'capacity_score_low',
        'of_high': 'capacity_score_high',
    }.items() %}
    left join {{ ref('capacity_categories') }} as {{ name }} on {{ is_in_category('bounded.' ~ score, name) }}
    {% endfor %}

),

-- The first line that is true (deciding.md, "How to decide").
decided as (

    select
        *,
        case
            when withhold_score < verdict_threshold then 'withhold'
            when fragile_score_high < verdict_threshold or is_suspended or score_status = 'no_traces' then 'suspend'
            when score_status in ('insufficient_data', 'provisional') or grant_score is null then 'wait'
            when review_for is not null or fragile_window_days is not null then 'review'
            when grant_score >= verdict_threshold and capacity_score >= verdict_threshold then 'grant'
            else 'keep'
        end as verdict
    from classified

),

-- The verdict beside the last score of a silent agent, from this run or from an earlier one.
last_verdicts as (

    select
        silences.agent_id_hash,
        silences.as_of,
        silences.window_days,
        earlier.verdict as last_verdict
    from decided as silences
    inner join decided as earlier
        on
            silences.agent_id_hash = earlier.agent_id_hash
            and silences.last_scored_as_of = earlier.as_of
            and silences.window_days = earlier.window_days
    {%- if is_incremental() %}

    union all

    select
        silences.agent_id_hash,
        silences.as_of,
        silences.window_days,
        published.verdict as last_verdict
    from decided as silences
    cross join lateral {{ scored_row(
        this ~ ' as looked_up', 'silences.agent_id_hash', 'silences.last_scored_as_of', 'silences.window_days'
    ) }} as published
    where silences.last_scored_as_of <= {{ cutoff() }}
    {%- endif %}

)

select
    {{ surrogate_key(['decided.agent_id_hash', epoch('decided.as_of'), 'decided.window_days']) }} as verdict_id,
    decided.agent_id_hash,
    decided.as_of,
    decided.window_days,
    decided.category,
    decided.category_low,
    decided.category_high,
    {{ category_certainty('decided.category', 'decided.category_low', 'decided.category_high') }}
    as category_certainty,
    decided.verdict,
    coalesce(decided.review_for, '{}') as review_for,
    decided.verdict_threshold,
    decided.capacity_score,
    decided.fragile_window_days,
    decided.fragile_score_high,
    last_verdicts.last_verdict,
    decided.agent_label
from decided
left join last_verdicts
    on
        decided.agent_id_hash = last_verdicts.agent_id_hash
        and decided.as_of = last_verdicts.as_of
        and decided.window_days = last_verdicts.window_days
