{{ config(meta={'scored_range': 'as_of'}) }}
{#- S(T; W) = mean of sigma(t) / sigma_max(t) over the period ends t in (T - W, T] that remember a signal (scoring.md
    §7), as int_window_statistics computes it: sigma(t) = sum of w f^k over the coherent signals in [t - M, t),
    sigma_max(t) the same over all signals: w the weight of a signal, k its age in whole periods, f = 1 - d * period, M
    the memory (coherence_days).
    Grain, key: agent, as-of, window. Without a signal S is unmeasured and 0; sigma and sigma_max are never null. -#}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        (n_signals_corroborated + n_signals_uncorroborated)::integer as n_signals
    from {{ ref('int_window_sums') }}

)

select
    window_sums.agent_id_hash,
    window_sums.as_of,
    window_sums.window_days,
    computed.sigma,
    computed.sigma_max,
    window_sums.n_signals,
    computed.s_score is not null as is_s_measured,
    coalesce(computed.s_score, 0) as s_score
from window_sums
cross join lateral {{ scored_row(
    ref('int_window_statistics'), 'window_sums.agent_id_hash', 'window_sums.as_of', 'window_sums.window_days'
) }} as computed
