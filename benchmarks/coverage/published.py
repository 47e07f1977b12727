"""Compute the published scores of simulated agents. In production, the factor models compute them in SQL."""

from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.counts import FIELDS_PER_TRACE
from ciris_scoring.certainty.inputs import PeriodSums, Scores
from ciris_scoring.certainty.losses import norm
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


class States(NamedTuple):
    """Coherence states at each period end, (agents, periods + 1) each, as in ``int_sustained_coherence``.

    σ(t) = Σ w f^k over the coherent signals in [t − M, t), and σ_max(t) is the same sum over all signals. w is the
    weight of a signal: w_c if corroborated, else w_u. k is its age in whole periods, f the decay factor per period, and
    M the lookback horizon (scoring.md §7).
    """

    sigma: Floats
    sigma_max: Floats

    @classmethod
    def of(cls, sums: PeriodSums, window: Window, parameters: Parameters, periods_per_day: int) -> "States":
        """Compute the states for the lookback horizon of a window.

        :param periods_per_day: 1 or 24.
        """
        keep = 1 - parameters.decay_per_day / periods_per_day
        memory = window.coherence_days * periods_per_day
        corroborated, uncorroborated = parameters.w_corroborated, parameters.w_uncorroborated
        coherent = corroborated * sums.n_coherent_corroborated + uncorroborated * sums.n_coherent_uncorroborated
        every = corroborated * sums.n_signals_corroborated + uncorroborated * sums.n_signals_uncorroborated
        return cls(decayed_sum(coherent, memory, keep), decayed_sum(every, memory, keep))

    def measured_ends(self, length: int) -> Floats:
        """Return how many of the last ``length`` period ends have a signal in their horizon, (agents, periods + 1)."""
        return decayed_sum((self.sigma_max > 0)[:, 1:].astype(np.float64), length)


def resilience_score(delta_drift: Floats, mttr_hours: Floats, rho: Floats, parameters: Parameters) -> Floats:
    """Compute ``R = norm((1 − δ_drift) · 1/(1 + MTTR/τ) · (1 − ρ_regression))`` (scoring.md §5)."""
    return norm((1 - delta_drift) / (1 + mttr_hours / parameters.mttr_scale_hours) * (1 - rho), parameters)


def sustained_coherence(
    sums: PeriodSums, places: Places, windows: tuple[Window, ...], parameters: Parameters
) -> Floats:
    """Compute S of n rows, whose periods are days; 0 where it is unmeasured (scoring.md §7)."""
    result = np.zeros(len(places.agent))
    for index, window in enumerate(windows):
        rows = np.flatnonzero(places.window == index)
        at = places.agent[rows], places.as_of[rows]
        states = States.of(sums, window, parameters, 1)
        ratios = decayed_sum(ratio(*states)[:, 1:], window.window_days)[at]
        result[rows] = ratio(ratios, states.measured_ends(window.window_days)[at])
    return result


def published(
    sums: PeriodSums,
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

    n = total(sums.n_traces)
    judged = total(sums.judged_by_bin)
    gaps = np.abs(total(sums.confidence_by_bin) / CONFIDENCE_UNITS - total(sums.successes_by_bin)).sum(axis=-1)
    replayed = real(ratio(sums.n_traces * sums.n_replay_succeeded, sums.n_replay_sampled))
    is_replayed = parameters.replay_enabled & (total(sums.n_replay_sampled) >= parameters.replay_min_sample)
    before = start - np.array([window.baseline_days for window in windows])[places.window]
    totals = running_total(sums.histograms)
    histograms = (between(totals, places.agent, *of) for of in ((start, places.as_of), (before, start)))
    recent, baseline = (counts.astype(np.float64) for counts in histograms)
    delta = drift(recent, baseline, parameters.drift_pseudo_count, parameters.drift_min_sample).mean
    s = sustained_coherence(sums, places, windows, parameters)
    components = {
        "d_identity": total(sums.n_identity_changes) / n,
        "k_contradiction": total(sums.n_overridden) / n,
        "i_chain": total(sums.n_chain_valid) / n,
        "i_coverage": total(sums.n_fields_present) / (FIELDS_PER_TRACE * n),
        "i_replay": np.where(is_replayed, np.minimum(replayed / n, 1.0), 1.0),
        "delta_drift": delta,
        "mttr_hours": mttr_hours,
        "rho_regression": rho_regression,
        "ece": np.minimum(ratio(gaps, judged.sum(axis=-1)), 1.0),
        "q_deferral": q_deferral,
        "u_unsafe": total(sums.n_unsafe) / n,
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
        chain_gaps=total(sums.n_chain_gaps).astype(np.int64),
        is_replay_measured=is_replayed.astype(np.int64),
        is_s_measured=(~np.isnan(s)).astype(np.int64),
        **components,
        **factors,
        capacity_score=np.where(n >= parameters.min_traces, np.prod(list(factors.values()), axis=0), np.nan),
    )
