"""Fleets on which the intervals are tested: plausible agents in a grid."""

from dataclasses import dataclass

import numpy as np

from benchmarks.coverage.behaviour import CONFIDENCE_IN_BIN, RATES, Behaviour, DayEffects, Facts
from ciris_scoring.windows.arrays import Floats, Integers
from ciris_scoring.windows.drift import N_BINS
from ciris_scoring.windows.run import Window

WINDOWS = {7: Window(7, 23, 30), 30: Window(30, 30, 30)}
SIZES = (30, 100, 300, 600, 2_000)
FLEET = 100
"""Agents in a fleet."""

MOST_ICC = 0.04
"""Largest correlation between traces of one day. In cases with `days_differ`, the correlation of each agent is drawn
uniformly from 0 to this value; in other cases it is 0."""

CORROBORATED = 0.8

EPISODES = 1.2
"""Mean number of episodes of a plausible agent in its window, whether the window has 7 or 30 days. With five episodes,
the score would be almost 0 and its interval narrow."""

DEFERRALS_PER_WEEK = 3.0

POWERS = {
    "renamed": (-3.5, -2, 0.7),
    "overridden": (-3, -1, 0.15),
    "chain_broken": (-3, -0.7, 0.5),
    "poor": (-3, -1, 0.3),
    "field_missing": (-3, -1.3, 0.2),
    "replay_failed": (-3, -1, 0.4),
    "unsafe": (-3.5, -1.3, 0.2),
    "incoherent": (-2, -0.4, 0.05),
}
"""Ranges of plausible rates, as (low, high, zero): a rate is 0 with the probability ``zero``, otherwise 10^x for a
random x from ``low`` to ``high``."""


@dataclass(frozen=True)
class Case:
    """Options of one simulated fleet."""

    name: str
    n: int
    """Number of traces of each agent in the window."""
    window: Window
    days_differ: bool = False


def horizon_days(window: Window) -> int:
    """Return the number of days before an as-of that the score of a window depends on."""
    return window.window_days + max(window.baseline_days, window.coherence_days)


def simulated(case: Case, agents: int, rng: np.random.Generator) -> tuple[Behaviour, Facts, DayEffects]:
    """Simulate the agents of a case over the lookback horizon of one as-of."""
    days = horizon_days(case.window)
    behaviour = plausible(agents, days, case.window.window_days, rng)
    facts = _facts(case, agents, days, rng)
    icc = rng.uniform(0, MOST_ICC, agents) if case.days_differ else np.zeros(agents)
    return behaviour, facts, DayEffects(icc)


def plausible(agents: int, days: int, drifting_days: int, rng: np.random.Generator) -> Behaviour:
    """Draw plausible agents. About 40 % of the agents drift in the last ``drifting_days`` days."""
    rates = []
    for name in RATES:
        low, high, zero = POWERS[name]
        drawn = 10.0 ** rng.uniform(low, high, agents)
        rates.append(np.where(rng.random(agents) < zero, 0.0, drawn))
    shapes = _bumps(rng.uniform(0.5, 0.95, (agents, 3)), rng.uniform(0.06, 0.18, (agents, 3)))
    others = _bumps(rng.uniform(0.3, 0.9, (agents, 3)), rng.uniform(0.06, 0.25, (agents, 3)))
    share = np.where(rng.random(agents) < 0.4, rng.uniform(0.05, 0.5, agents), 0.0)
    drifts = np.arange(days) >= days - drifting_days
    mixed = (share[:, None] * drifts)[..., None, None]
    histograms = (1 - mixed) * shapes[:, None] + mixed * others[:, None]
    bias = rng.normal(0.03, 0.08, (agents, 1)) + rng.normal(0, 0.04, (agents, N_BINS))
    success = np.clip(CONFIDENCE_IN_BIN - bias, 0.02, 0.99)
    return Behaviour(_every_day(np.stack(rates, axis=-1), days), histograms, _every_day(success, days))


def _bumps(centre: Floats, width: Floats) -> Floats:
    """Return histograms of ten bins, (..., 10). Each histogram has one peak; bins far from the peak are 0."""
    density = np.exp(-(((CONFIDENCE_IN_BIN - centre[..., None]) / width[..., None]) ** 2) / 2)
    density = np.where(density < 1e-3, 0.0, density)
    result: Floats = density / density.sum(axis=-1, keepdims=True)
    return result


def _every_day(values: Floats, days: int) -> Floats:
    return np.repeat(values[:, None], days, axis=1)


def _traces_per_day(n: int, window: Window, agents: int, days: int, rng: np.random.Generator) -> Integers:
    """Draw numbers of traces per day, (agents, days).

    The days are split, from the last day backwards, into blocks as long as the window. Each block has n traces. The
    first block may be shorter, with proportionally fewer traces.
    """
    busy = rng.gamma(8.0, 1.0, (agents, days))
    traces = np.zeros((agents, days), dtype=np.int64)
    for last in range(days, 0, -window.window_days):
        first = max(last - window.window_days, 0)
        stretch = busy[:, first:last]
        expected = max(round(n * (last - first) / window.window_days), 1)
        traces[:, first:last] = rng.multinomial(expected, stretch / stretch.sum(axis=1, keepdims=True))
    return traces


def _facts(case: Case, agents: int, days: int, rng: np.random.Generator) -> Facts:
    n = _traces_per_day(case.n, case.window, agents, days, rng)
    n_episodes = rng.poisson(EPISODES, agents)
    n_deferrals = rng.poisson(DEFERRALS_PER_WEEK * (case.window.window_days / 7), agents)
    good = rng.uniform(0.6, 1.0, agents)
    half = (1 - good) * rng.uniform(0, 1, agents)
    return Facts(
        n_traces=n,
        n_corroborated=rng.binomial(n, CORROBORATED),
        n_episodes=n_episodes,
        mean_hours=10.0 ** rng.uniform(-1.5, 0.5, agents),
        rho_regression=np.where(n_episodes > 1, rng.choice([0.0, 0.0, 0.5], agents), 0.0),
        n_deferrals=n_deferrals,
        deferral_outcomes=np.stack([good, half, 1 - good - half], axis=-1),
    )


def more_of(**rates: float) -> Floats:
    """Return an increment for each of ``RATES``, 0 for rates that are not named."""
    return np.array([rates.get(rate, 0.0) for rate in RATES])


def cells() -> list[Case]:
    """Return cases of plausible agents: all combinations of number of traces, window, and whether days differ."""
    return [
        Case(f"n = {n}, {days} days, days {'differ' if differ else 'alike'}", n, window, differ)
        for days, window in WINDOWS.items()
        for differ in (False, True)
        for n in SIZES
    ]
