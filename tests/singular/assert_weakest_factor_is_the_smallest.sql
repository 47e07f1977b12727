-- weakest_factor names a factor with the smallest value, the first of them in the order C, I_int, R, I_inc, S.
with factors as (

    select
        candidates.capacity_score_id,
        candidates.weakest_factor,
        factor.name,
        row_number() over (
            partition by candidates.agent_id_hash, candidates.as_of, candidates.window_days
            order by factor.score, factor.place
        ) as strength
    from {{ ref('int_capacity_scores') }} as candidates
    cross join lateral (
        values
        ('C', 1, candidates.c_score),
        ('I_int', 2, candidates.i_int_score),
        ('R', 3, candidates.r_score),
        ('I_inc', 4, candidates.i_inc_score),
        ('S', 5, candidates.s_score)
    ) as factor (name, place, score)

)

select
    capacity_score_id,
    weakest_factor,
    name as smallest_factor
from factors
where
    strength = 1
    and weakest_factor <> name
