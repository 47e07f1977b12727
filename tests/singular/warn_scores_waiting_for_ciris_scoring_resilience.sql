{{ config(severity='warn') }}
-- Scores that are in no mart yet, because the Python step has not made their R: run `ciris-scoring resilience`, then
-- `dbt build --selector after_resilience`.
with resilience as (

    select resilience_id
    from {{ ref('int_resilience') }}
    where {{ in_increment(ref('int_resilience')) }}

)

select
    inputs.agent_id_hash,
    inputs.as_of,
    inputs.window_days
from {{ ref('int_resilience_inputs') }} as inputs
left join resilience on inputs.resilience_inputs_id = resilience.resilience_id
where
    {{ in_increment(ref('int_resilience_inputs'), 'inputs') }}
    and resilience.resilience_id is null
