{#- S(T; W) = mean of sigma(t) / sigma_max(t) over the period ends t in (T - W, T] that have a signal within the
    lookback horizon M = coherence_days (scoring.md §7). T is the as-of and W the length of the window. sigma(t) is the
    sum of w f^k over the coherent signals in [t - M, t), sigma_max(t) the same sum over all signals. w is the weight of
    a signal, k its age in whole periods, f = 1 - d * period with the decay d per day. int_windows computes S. Grain and
    key: agent, as-of, window. S is 0 (unmeasured) without a signal; sigma and sigma_max are never null. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ sustained_coherence_columns() }}
from {{ ref('int_windows') }}
