-- A category is one of the published ones, and the unrounded score lies in it: at its lower bound or above, and below
-- its upper bound. People act on the guidance of the category.
select
    candidates.capacity_score_id,
    candidates.capacity_score,
    candidates.category
from {{ ref('int_capacity_scores') }} as candidates
left join {{ ref('capacity_categories') }} as categories on candidates.category = categories.category
where
    candidates.capacity_score is not null
    and (
        categories.category is null
        or candidates.capacity_score < categories.lower_bound
        or candidates.capacity_score >= categories.upper_bound
    )
