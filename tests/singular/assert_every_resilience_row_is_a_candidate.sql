-- Rows in, rows out: every row of the run that has an R is a candidate, and every candidate has an R. The other four
-- factors are joined to it, and a row that one of them lacked would be missing in the marts.
with resilience as (

    select resilience_id
    from {{ ref('int_resilience') }}
    where {{ in_increment(ref('int_resilience')) }}

),

candidates as (

    select capacity_score_id
    from {{ ref('int_capacity_scores') }}
    where {{ in_increment(ref('int_resilience')) }}

)

select
    resilience.resilience_id as missing,
    candidates.capacity_score_id as surplus
from resilience
full join candidates on resilience.resilience_id = candidates.capacity_score_id
where
    resilience.resilience_id is null
    or candidates.capacity_score_id is null
