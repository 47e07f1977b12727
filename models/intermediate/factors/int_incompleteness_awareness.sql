{#- I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe) (scoring.md §6). ECE is the sum over bins of confidence of (n_bin /
    N) * |mean confidence - success rate|, where n_bin of the N traces with confidence and outcome are in the bin.
    Q_deferral is the mean value of the window's judged deferrals; it is 1 if none was judged. U_unsafe is the share of
    traces that failed under high entropy. Grain and key: agent, as-of, window. ECE is 0 (unmeasured) without a trace
    that has confidence and outcome. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ incompleteness_awareness_columns() }}
from {{ ref('int_windows') }}
