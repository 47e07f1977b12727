{{ config(severity='warn') }}
-- Scores that are in no mart yet, because the Python step has not made their R or their limits: run `ciris-scoring
-- resilience`, then `dbt build --selector after_resilience`. Sets are compared, not joined: the planner would take
-- agent, as-of and window for independent, and compare each row with each.
with computed as (

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_resilience') }}
    where {{ in_increment(ref('int_resilience')) }}

    intersect

    select
        agent_id_hash,
        as_of,
        window_days
    from {{ ref('int_score_intervals') }}
    where {{ in_increment(ref('int_score_intervals')) }}

)

select
    agent_id_hash,
    as_of,
    window_days
from {{ ref('int_resilience_inputs') }}
where {{ in_increment(ref('int_resilience_inputs')) }}

except

select
    agent_id_hash,
    as_of,
    window_days
from computed
