"""Compute the truth that an interval should cover: the score's formulas at the expected sums (certainty.md §3).

Expected sums have no sampling noise, so divergences need no correction for such noise.
"""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import (
    CONFIDENCE_IN_BIN,
    FIELDS,
    POOR_TRACE_FIELDS,
    RATES,
    Behaviour,
    Facts,
)
from benchmarks.coverage.events import WORTH
from benchmarks.coverage.published import decayed_sum, resilience_score
from ciris_scoring.windows.arrays import Floats, ratio
from ciris_scoring.windows.drift import smoothed
from ciris_scoring.windows.run import Parameters, Window

PARAMETERS = Parameters()


class Truth(NamedTuple):
    """Expected score, factors and components of agents on the last day."""

    capacity: Floats
    """Expected scores, (agents,)."""
    factors: Floats
    """Expected C, I_int, R, I_inc and S, (agents, 5)."""
    components: Floats
    """Expected components, (agents, 11), in the order of ``intervals.COMPONENTS``."""


def truth(behaviour: Behaviour, facts: Facts, window: Window, end: int) -> Truth:
    """Return the expected scores at the as-of after ``end`` days."""
    start = end - window.window_days
    first = start - window.baseline_days
    n = facts.n_traces.astype(np.float64)
    total = n[:, start:end].sum(axis=1)
    rate = dict(zip(RATES, np.moveaxis(behaviour.rates, -1, 0), strict=True))

    def mean(p: Floats) -> Floats:
        result: Floats = (n * p)[:, start:end].sum(axis=1) / total
        return result

    poor_share = POOR_TRACE_FIELDS / FIELDS
    missing = rate["poor"] * poor_share + (1 - rate["poor"] * poor_share) * rate["field_missing"]
    renamed, overridden, unsafe = mean(rate["renamed"]), mean(rate["overridden"]), mean(rate["unsafe"])
    c = np.exp(-PARAMETERS.lambda_c * renamed - PARAMETERS.mu_c * overridden)
    integrity = [1 - mean(bad) for bad in (rate["chain_broken"], missing, rate["replay_failed"])]

    counts = n[:, :, None, None] * behaviour.histograms
    recent, baseline = counts[:, start:end].sum(axis=1), counts[:, first:start].sum(axis=1)
    p, q = smoothed(recent, baseline, PARAMETERS.drift_pseudo_count)
    kl = np.sum(p * np.log(ratio(p, q, 1.0)), axis=-1)
    delta = np.mean(-np.expm1(-np.maximum(kl, 0)), axis=-1)
    hours = np.where(facts.n_episodes > 0, facts.mean_hours, 0.0)
    r = resilience_score(delta, hours, facts.rho_regression, PARAMETERS)

    gaps = counts[:, :, 0] * (CONFIDENCE_IN_BIN - np.clip(behaviour.success, 0, 1))
    ece = np.abs(gaps[:, start:end].sum(axis=1)).sum(axis=-1) / total
    q = np.where(facts.n_deferrals > 0, facts.deferral_outcomes @ WORTH, 1.0)
    i_inc = (1 - ece) * q * (1 - unsafe)

    s = _coherence(rate["incoherent"], facts, window, end)
    factors = np.stack([c, np.prod(integrity, axis=0), r, i_inc, s], axis=-1)
    components = np.stack([renamed, overridden, *integrity, delta, hours, ece, q, unsafe, s], axis=-1)
    return Truth(np.prod(factors, axis=-1), factors, components)


def _coherence(incoherent: Floats, facts: Facts, window: Window, end: int) -> Floats:
    """Return S: the coherent share of the decayed weight of signals, averaged over the days of the window."""
    weight = PARAMETERS.w_corroborated * facts.n_corroborated + PARAMETERS.w_uncorroborated * (
        facts.n_traces - facts.n_corroborated
    )
    coherent, all_signals = (
        decayed_sum(values, window.coherence_days, 1 - PARAMETERS.decay_per_day)
        for values in (weight * (1 - incoherent), weight)
    )
    ends = slice(end - window.window_days + 1, end + 1)
    result: Floats = np.mean(coherent[:, ends] / all_signals[:, ends], axis=1)
    return result
