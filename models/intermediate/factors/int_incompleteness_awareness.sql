{#- I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe) (scoring.md §6). ECE (Naeini, Cooper and Hauskrecht 2015, AAAI) is
    the sum over bins of confidence of (n_bin / N) * |mean confidence - success rate|, where n_bin of the N judged
    traces are in the bin. It equals the sum of |confidences - successes| of each bin, divided by N. Q_deferral is the
    mean value of the judged deferrals, U_unsafe the share of traces that failed under high entropy. Grain and key:
    agent, as-of, window. ECE is 0 (unmeasured) if no trace has confidence and outcome; Q_deferral is 1 if no deferral
    was judged. -#}
with components as (

    select
        agent_id_hash,
        as_of,
        window_days,
        -- excess_confidence: confidences minus successes of each bin, in units of 1e-11, so that the sum is exact.
        coalesce(
            (select sum(abs(excess)) from unnest(excess_confidence) as bins (excess))::double precision
            / 1e11::double precision / nullif(n_judged, 0)::double precision,
            0
        ) as ece,
        n_judged > 0 as is_ece_measured,
        coalesce(value_of_judged_deferrals / nullif(n_judged_deferrals, 0), 1) as q_deferral,
        n_judged_deferrals,
        n_unsafe / n_traces::double precision as u_unsafe
    from {{ ref('int_windows') }}

)

select
    agent_id_hash,
    as_of,
    window_days,
    ece,
    is_ece_measured,
    q_deferral,
    n_judged_deferrals,
    u_unsafe,
    (1 - ece) * q_deferral * (1 - u_unsafe) as i_inc_score
from components
