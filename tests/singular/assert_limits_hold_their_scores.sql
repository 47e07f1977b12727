-- The limits that Python computed belong to the numbers that SQL computed from the same sums: they hold them to 1e-9,
-- before they are widened by a last digit, and the score's are null exactly where it is. A limit that is no number, or
-- lies outside [0, 1], fails too.
with limits as (

    select *
    from {{ ref('int_score_intervals') }}
    where {{ in_increment(ref('int_score_intervals')) }}

)

select
    candidates.capacity_score_id,
    candidates.as_of
from {{ ref('int_capacity_scores') }} as candidates
inner join limits
    on
        candidates.agent_id_hash = limits.agent_id_hash
        and candidates.as_of = limits.as_of
        and candidates.window_days = limits.window_days
where
    (candidates.capacity_score is null) <> (limits.capacity_score_low is null)
    or (candidates.capacity_score is null) <> (limits.capacity_score_high is null)
    or (candidates.capacity_score is null and limits.interval_driver is not null)
    or (candidates.category_certainty is null) <> (candidates.capacity_score is null)
    {% for name in scores_with_limits() + components_with_limits() %}
    {% if name != 'capacity_score' %}
    or num_nulls(limits.{{ name }}_low, limits.{{ name }}_high) > 0
    {% endif %}
    or least(limits.{{ name }}_low, limits.{{ name }}_high) < 0
    or greatest(limits.{{ name }}_low, limits.{{ name }}_high) > {{ "'Infinity'" if name == 'mttr_hours' else 1 }}
    or limits.{{ name }}_low > candidates.{{ name }} + 1e-9 * greatest(1, candidates.{{ name }})
    or limits.{{ name }}_high < candidates.{{ name }} - 1e-9 * greatest(1, candidates.{{ name }})
    {% endfor %}
