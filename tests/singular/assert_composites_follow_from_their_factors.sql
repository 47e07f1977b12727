-- capacity_score is the product of the five factors, capacity_score_geometric their weighted geometric mean, both
-- with I_int no lower than integrity_floor, and fragility_index the inverse. Formulas spelt out, not called.
with candidates as (

    select
        *,
        greatest(i_int_score, {{ scoring_parameter('integrity_floor') }}) as floored_integrity
    from {{ ref('int_capacity_scores') }}

)

select
    capacity_score_id,
    agent_id_hash,
    as_of,
    window_days
from candidates
where
    abs(capacity_score - c_score * floored_integrity * r_score * i_inc_score * s_score) > 1e-12
    or abs(
        capacity_score_geometric
        - power(c_score, {{ scoring_parameter('weight_c') }})
        * power(floored_integrity, {{ scoring_parameter('weight_i_int') }})
        * power(r_score, {{ scoring_parameter('weight_r') }})
        * power(i_inc_score, {{ scoring_parameter('weight_i_inc') }})
        * power(s_score, {{ scoring_parameter('weight_s') }})
    ) > 1e-12
    or abs(fragility_index * ({{ scoring_parameter('fragility_epsilon') }} + capacity_score) - 1) > 1e-12
