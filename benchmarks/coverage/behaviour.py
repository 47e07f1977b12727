"""Simulate agents with known truth: expected behaviour by day, and random sums of traces drawn from it.

This simulation is independent of ``ciris_scoring.lab.simulation``. Traces per day, numbers of episodes and numbers of
deferrals are given; everything else is random.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.inputs import COUNTED, Counts
from ciris_scoring.windows.arrays import Floats, Integers
from ciris_scoring.windows.drift import METRICS, N_BINS
from ciris_scoring.windows.sums import CONFIDENCE_UNITS

REPLAY_SAMPLE = 30
FIELDS = 10
POOR_TRACE_FIELDS = 5
"""Number of missing fields of a poor trace. The rate ``poor`` is the share of poor traces."""

CONFIDENCE_IN_BIN: Floats = np.append((np.arange(N_BINS - 1) + 0.5) / N_BINS, 1.0)
"""Mean confidence of each bin. In the last bin the confidence is 1."""

SPREAD_IN_BIN: Floats = np.append(np.full(N_BINS - 1, 0.029), 0.0)
"""Standard deviation of the confidence within each bin."""

RATES = (
    *("renamed", "overridden", "chain_broken", "poor", "field_missing", "replay_failed", "unsafe"),
    "incoherent",
)


class Behaviour(NamedTuple):
    """Expected behaviour of agents by day; arrays begin with (agents, days)."""

    rates: Floats
    """Probabilities per trace, (..., 8), in the order of ``RATES``; ``field_missing`` is per field."""
    histograms: Floats
    """Distributions of the metrics in ``METRICS`` over bins, (..., 3, 10); the first metric is the confidence."""
    success: Floats
    """Probability of success by confidence bin, (..., 10)."""

    def with_rate(self, name: str, values: Floats | float) -> "Behaviour":
        """Return the behaviour with other values of a rate: one value for all days, or a value for each day."""
        rates = self.rates.copy()
        rates[..., RATES.index(name)] = values
        return self._replace(rates=rates)

    def miscalibrated(self, by: Floats | float) -> "Behaviour":
        """Return the behaviour with a confidence that exceeds the success rate by an amount: one amount for all days,
        or one for each day."""
        success = np.clip(CONFIDENCE_IN_BIN - np.expand_dims(by, -1), 0.02, 0.98)
        return self._replace(success=np.broadcast_to(success, self.success.shape))


class Facts(NamedTuple):
    """Values that are given instead of drawn at random. Arrays have one value per agent unless noted."""

    n_traces: Integers
    """Number of traces, (agents, days)."""
    n_corroborated: Integers
    """Number of corroborated signals, (agents, days). All traces are signals."""
    n_episodes: Integers
    """Number of episodes in the window."""
    mean_hours: Floats
    """Expected duration of an episode."""
    rho_regression: Floats
    n_deferrals: Integers
    deferral_outcomes: Floats
    """Probabilities, (agents, 3), that a resolved deferral has the value 1, 0.5, 0."""


def only_traces(n_traces: Integers, n_corroborated: Integers) -> Facts:
    """Return facts without episodes and deferrals, for simulations that draw episodes and deferrals as events."""
    none, nothing = np.zeros(len(n_traces), dtype=np.int64), np.zeros(len(n_traces))
    return Facts(n_traces, n_corroborated, none, nothing, nothing, none, np.zeros((len(n_traces), 3)))


class DayEffects(NamedTuple):
    """Dependence between the traces of an agent."""

    icc: Floats
    """Correlation between traces of the same day, (agents,); 0 if all days have the same expected behaviour."""


def realised(behaviour: Behaviour, effects: DayEffects, rng: np.random.Generator) -> Behaviour:
    """Draw the rates and distributions of each day. The expected values are those of ``behaviour``."""
    icc = effects.icc[:, None]
    if not np.any(icc > 0):
        return behaviour
    strength = (1 / np.maximum(icc, 1e-6) - 1)[..., None]

    def beta(p: Floats) -> Floats:
        inside = np.clip(p, 1e-9, 1 - 1e-9)
        drawn = rng.beta(inside * strength, (1 - inside) * strength)
        return np.where((icc[..., None] > 0) & (p > 0) & (p < 1), drawn, p)

    raised = np.maximum(behaviour.histograms * strength[..., None], 1e-12)
    gammas = rng.gamma(raised)
    gammas = np.where(behaviour.histograms > 0, np.maximum(gammas, 1e-300), 0.0)
    histograms = gammas / gammas.sum(axis=-1, keepdims=True)
    shift = rng.normal(0.0, 1.0, behaviour.success.shape[:2])
    return Behaviour(
        beta(behaviour.rates),
        np.where(icc[..., None, None] > 0, histograms, behaviour.histograms),
        _shifted(behaviour.success, shift, icc),
    )


def _shifted(success: Floats, shift: Floats, icc: Floats) -> Floats:
    """Shift the success rates of all bins of a day towards 1 or 0. The expected rates do not change."""
    return success + np.clip(shift * np.sqrt(icc), -0.5, 0.5)[..., None] * 2 * success * (1 - success)


def draw(real: Behaviour, facts: Facts, rng: np.random.Generator) -> Counts:
    """Draw the sums of the traces of each agent and day, given the behaviour ``real`` of each day."""
    n = facts.n_traces
    thinned, binned = rng.binomial, rng.multinomial
    rate = dict(zip(RATES, np.moveaxis(real.rates, -1, 0), strict=True))
    sampled = np.minimum(n, REPLAY_SAMPLE)
    poor = thinned(n, rate["poor"])
    missing = POOR_TRACE_FIELDS * poor + rng.binomial(FIELDS * n - POOR_TRACE_FIELDS * poor, rate["field_missing"])
    histograms = np.stack([binned(n, real.histograms[:, :, m]) for m in range(len(METRICS))], axis=2)
    judged = histograms[:, :, 0]
    noise = rng.normal(0.0, SPREAD_IN_BIN, judged.shape) * np.sqrt(judged)
    confidence = np.clip(judged * CONFIDENCE_IN_BIN + noise, 0, judged)
    events = {
        "d_identity": thinned(n, rate["renamed"]),
        "k_contradiction": thinned(n, rate["overridden"]),
        "i_chain": thinned(n, rate["chain_broken"]),
        "i_coverage": missing,
        "i_replay": thinned(sampled, rate["replay_failed"]),
        "u_unsafe": thinned(n, rate["unsafe"]),
    }
    signals = facts.n_corroborated, n - facts.n_corroborated
    incoherent = [thinned(of, rate["incoherent"]) for of in signals]
    successes = thinned(judged, np.clip(real.success, 0, 1))
    events |= {"s_score": incoherent[0] + incoherent[1], "ece": successes.sum(axis=-1)}
    return Counts(
        n_gaps=np.zeros_like(n),
        events=np.stack([events[name] for name in COUNTED], axis=-1),
        trials=np.stack([sampled if name == "i_replay" else n for name in COUNTED], axis=-1),
        signals=np.stack([*incoherent, *signals], axis=-1),
        judged=judged,
        successes=successes,
        confidence=np.rint(confidence * CONFIDENCE_UNITS).astype(np.int64),
        histograms=histograms,
    )
