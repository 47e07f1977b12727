"""Compute the published scores of simulated agents. In production, the factor models compute them in SQL."""

import numpy as np

from ciris_scoring.certainty.inputs import EVENT_UNITS, RATES, VALUES, Counts, Scores
from ciris_scoring.certainty.losses import loss_of_r
from ciris_scoring.windows.arrays import Floats, Integers, between, ratio, running_total
from ciris_scoring.windows.drift import drift
from ciris_scoring.windows.run import Parameters, Window
from ciris_scoring.windows.sums import CONFIDENCE_UNITS, Places


def decayed_sum(per_period: Floats, length: int, keep: float = 1.0) -> Floats:
    """Compute sums over the last ``length`` periods, with weights that decay by age.

    :param per_period: (agents, periods, ...) numbers.
    :param length: number of periods.
    :param keep: factor by which the weight of a period falls with each later period; 1 for a plain sum. The newest
        period has the weight 1.
    :returns: (agents, periods + 1, ...); element t depends on the periods [t − length, t) only.
    """
    agents, periods, *inner = per_period.shape
    result = np.zeros((agents, periods + 1, *inner))
    block = np.array(per_period, dtype=np.float64)
    size, covered, remaining = 1, 0, length
    while remaining:
        if remaining & 1:
            result[:, 1 + covered :] += keep**covered * block[:, : max(periods - covered, 0)]
            covered += size
        remaining >>= 1
        if remaining:
            older = block[:, : max(periods - size, 0)].copy()
            block[:, size:] += keep**size * older
            size *= 2
    return result


def resilience_score(delta_drift: Floats, mttr_hours: Floats, rho: Floats, parameters: Parameters) -> Floats:
    """Compute ``R = norm((1 − δ_drift) · 1/(1 + MTTR/τ) · (1 − ρ_regression))`` (scoring.md §5)."""
    return np.exp(-loss_of_r(delta_drift, mttr_hours, rho, parameters))


def sustained_coherence(sums: Counts, places: Places, windows: tuple[Window, ...], parameters: Parameters) -> Floats:
    """Compute S of n rows, whose periods are days; 0 where it is unmeasured (scoring.md §7)."""
    result = np.zeros(len(places.agent))
    weights = np.array([parameters.w_corroborated, parameters.w_uncorroborated])
    incoherent, every = sums.signals[..., :2] @ weights, sums.signals[..., 2:] @ weights
    for index, window in enumerate(windows):
        rows = np.flatnonzero(places.window == index)
        at = places.agent[rows], places.as_of[rows]
        keep = 1 - parameters.decay_per_day
        sigma, most = (decayed_sum(of, window.coherence_days, keep)[:, 1:] for of in (every - incoherent, every))
        ratios, measured = (
            decayed_sum(of, window.window_days)[at] for of in (ratio(sigma, most), (most > 0).astype(np.float64))
        )
        result[rows] = ratio(ratios, measured)
    return result


def published(
    sums: Counts,
    places: Places,
    windows: tuple[Window, ...],
    parameters: Parameters,
    mttr_hours: Floats,
    n_episodes: Integers,
    rho_regression: Floats,
    q_deferral: Floats,
    n_judged_deferrals: Integers,
) -> Scores:
    """Return the scores of n rows, whose periods are days, with the given values of episodes and deferrals."""
    start = places.as_of - np.array([window.window_days for window in windows])[places.window]

    def total(counts: Integers) -> Floats:
        return between(running_total(counts), places.agent, start, places.as_of).astype(np.float64)

    def real(values: Floats) -> Floats:
        return total(np.rint(values * 2.0**30).astype(np.int64)) / 2.0**30

    n = total(sums.trials[..., 0])
    rates = dict(zip(RATES, (total(sums.events) * EVENT_UNITS)[:, : len(RATES)].T, strict=True))
    judged = total(sums.judged)
    gaps = np.abs(total(sums.confidence) / CONFIDENCE_UNITS - total(sums.successes)).sum(axis=-1)
    sampled = sums.trials[..., RATES.index("i_replay")]
    replayed = real(ratio(sums.trials[..., 0] * (sampled - sums.events[..., RATES.index("i_replay")]), sampled))
    is_replayed = parameters.replay_enabled & (total(sampled) >= parameters.replay_min_sample)
    before = start - np.array([window.baseline_days for window in windows])[places.window]
    totals = running_total(sums.histograms)
    histograms = (between(totals, places.agent, *of) for of in ((start, places.as_of), (before, start)))
    recent, baseline = (counts.astype(np.float64) for counts in histograms)
    delta = drift(recent, baseline, parameters.drift_pseudo_count, parameters.drift_min_sample).mean
    s = sustained_coherence(sums, places, windows, parameters)
    components = {
        "d_identity": rates["d_identity"] / n,
        "k_contradiction": rates["k_contradiction"] / n,
        "i_chain": 1 - rates["i_chain"] / n,
        "i_coverage": 1 - rates["i_coverage"] / n,
        "i_replay": np.where(is_replayed, np.minimum(replayed / n, 1.0), 1.0),
        "delta_drift": delta,
        "mttr_hours": mttr_hours,
        "rho_regression": rho_regression,
        "ece": np.minimum(ratio(gaps, judged.sum(axis=-1)), 1.0),
        "q_deferral": q_deferral,
        "u_unsafe": rates["u_unsafe"] / n,
    }
    part = components.__getitem__
    factors = {
        "c_score": np.exp(-parameters.lambda_c * part("d_identity") - parameters.mu_c * part("k_contradiction")),
        "i_int_score": part("i_chain") * part("i_coverage") * part("i_replay"),
        "r_score": resilience_score(delta, mttr_hours, rho_regression, parameters),
        "i_inc_score": (1 - part("ece")) * q_deferral * (1 - part("u_unsafe")),
        "s_score": s,
    }
    none = np.zeros(len(n), dtype=np.int64)
    return Scores(
        **places._asdict(),
        n_traces=n.astype(np.int64),
        n_judged_deferrals=n_judged_deferrals,
        n_episodes=n_episodes,
        n_open_episodes=none,
        open_microseconds=none,
        chain_gaps=none,
        is_replay_measured=is_replayed.astype(np.int64),
        is_s_measured=(~np.isnan(s)).astype(np.int64),
        values=np.stack([(components | {"s_score": s})[name] for name in VALUES], axis=-1),
        capacity_score=np.where(n >= parameters.min_traces, np.prod(list(factors.values()), axis=0), np.nan),
    )
