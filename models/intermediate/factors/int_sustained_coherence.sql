{#- S(T; W) = mean of sigma(t) / sigma_max(t) over the period ends t in (T - W, T] that remember a signal (scoring.md
    §7), as int_windows computes it: sigma(t) = sum of w f^k over the coherent signals in [t - M, t), sigma_max(t) the same
    over all signals: w the weight of a signal, k its age in whole periods, f = 1 - d * period, M the memory
    (coherence_days).
    Grain, key: agent, as-of, window. Without a signal S is unmeasured and 0; sigma and sigma_max are never null. -#}
select
    agent_id_hash,
    as_of,
    window_days,
    {{ sustained_coherence_columns() }}
from {{ ref('int_windows') }}
