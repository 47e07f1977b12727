-- Every counted trace with a confidence and an outcome is in exactly one bin of int_calibration_bins, with its
-- confidence and its success: ECE compares these sums.
with direct_sums as (

    select
        agent_id_hash,
        period_start,
        count(*) as n_judged,
        sum(csdma_plausibility_score) as sum_confidence,
        count(*) filter (where action_success) as n_successes
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_increment(ref('int_trace_verdicts')) }}
        and is_counted
        and csdma_plausibility_score is not null
        and action_success is not null
    group by
        agent_id_hash,
        period_start

),

bins as (

    select
        agent_id_hash,
        period_start,
        n_judged,
        (select sum(bin.n) from unnest(n_traces) as bin (n)) as n_binned,
        (select sum(bin.n) from unnest(sum_confidence) as bin (n)) as sum_confidence,
        (select sum(bin.n) from unnest(n_successes) as bin (n)) as n_successes
    from {{ ref('int_calibration_bins') }}
    where {{ in_increment(ref('int_calibration_bins')) }}

)

select
    agent_id_hash,
    period_start
from direct_sums
full join bins using (agent_id_hash, period_start)
where
    direct_sums.n_judged is distinct from bins.n_judged
    or direct_sums.n_judged is distinct from bins.n_binned
    or direct_sums.sum_confidence is distinct from bins.sum_confidence
    or direct_sums.n_successes is distinct from bins.n_successes
