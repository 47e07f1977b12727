{#- I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe) (scoring.md §6), with ECE = sum over bins of (n_bin / N) * |mean
    confidence - success rate|, Q_deferral the mean value of the window's judged deferrals (1 where there is none), and
    U_unsafe the share of traces that failed under high entropy.
    The steady value takes deferrals as often and as good as in the last steady_days (certainty.md §4b).
    Grain and key: agent, as-of, window. Without a judged trace ECE is unmeasured and 0; null is q_deferral_before without
    a deferral judged in as many days before the window. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ incompleteness_awareness_columns() }}
from {{ ref('int_windows') }}
