{#- S(T; W) = mean of sigma(t) / sigma_max(t) over the period ends t in (T - W, T] that have a signal within the
    lookback horizon M = coherence_days (scoring.md §7). int_windows computes it. Grain and key: agent, as-of, window.
    S is 0 (unmeasured) without a signal; sigma and sigma_max are never null. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    sigma,
    sigma_max,
    (n_signals_corroborated + n_signals_uncorroborated)::integer as n_signals,
    s_score is not null as is_s_measured,
    coalesce(s_score, 0) as s_score
from {{ ref('int_windows') }}
