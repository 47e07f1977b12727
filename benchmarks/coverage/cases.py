"""The fleets that the proof simulates: plausible agents in cells, special cases, and named edge agents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage.behaviour import (
    CONFIDENCE_IN_BIN,
    RATES,
    Behaviour,
    DayEffects,
    Facts,
)
from ciris_scoring.statistics.inputs import METRICS, Floats, Integers, Window
from ciris_scoring.statistics.resilience import N_BINS

WINDOWS = {7: Window(7, 23, 30), 30: Window(30, 30, 30)}
SIZES = (30, 100, 300, 600, 2_000)
FLEET = 100
"""Agents of a fleet."""

MOST_ICC = 0.04
"""Correlations of the traces of a day are uniform up to this, where days differ."""

CORROBORATED = 0.8

EPISODES = 1.2
"""Of plausible agents in a window, short or long: an agent with five has a score near 0 and a narrow interval."""

DEFERRALS_PER_WEEK = 3.0
"""Of plausible agents; the good agent has neither."""


class Agents(NamedTuple):
    """What agents do, and what is given."""

    behaviour: Behaviour
    facts: Facts
    window: Window

    def doing(self, **changes: Floats) -> "Agents":
        """The same with another behaviour."""
        return self._replace(behaviour=self.behaviour._replace(**changes))

    def given(self, **changes: NDArray[Any]) -> "Agents":
        """The same with other facts."""
        return self._replace(facts=self.facts._replace(**changes))


Change = Callable[[Agents], Agents]


@dataclass(frozen=True)
class Case:
    """A fleet to simulate."""

    name: str
    n: int
    """Traces in the window."""
    window: Window
    days_differ: bool = False
    change: Change | None = None
    """Makes something special of plausible agents."""
    benign: bool = False
    """Whether the agents are the same good agent instead of a plausible fleet."""
    fleet: int = FLEET
    cluster: int = 1
    wanders: bool = False


def simulated(case: Case, agents: int, rng: np.random.Generator) -> tuple[Behaviour, Facts, DayEffects]:
    """Agents of a case, over the memory of one as-of."""
    days = case.window.memory_days
    behaviour = benign(agents, days) if case.benign else _plausible(agents, days, case.window, rng)
    facts = _facts(case, agents, days, rng)
    if case.change is not None:
        behaviour, facts, _ = case.change(Agents(behaviour, facts, case.window))
    icc = rng.uniform(0, MOST_ICC, agents) if case.days_differ else np.zeros(agents)
    return behaviour, facts, DayEffects(icc, case.cluster, case.wanders)


# --- Plausible agents ----------------------------------------------------------------------------------------------


def _powers(rng: np.random.Generator, low: float, high: float, agents: int, zero: float) -> Floats:
    """Rates of 10^low to 10^high, and 0 with the probability ``zero``."""
    rates: Floats = 10.0 ** rng.uniform(low, high, agents)
    return np.where(rng.random(agents) < zero, 0.0, rates)


def stationary(agents: int, days: int, rng: np.random.Generator) -> Behaviour:
    """Plausible agents that do not drift."""
    return _plausible(agents, days, Window(0, 0, 0), rng)


def _plausible(agents: int, days: int, window: Window, rng: np.random.Generator) -> Behaviour:
    rates = {
        "renamed": _powers(rng, -3.5, -2, agents, 0.7),
        "overridden": _powers(rng, -3, -1, agents, 0.15),
        "chain_broken": _powers(rng, -3, -0.7, agents, 0.5),
        "poor": _powers(rng, -3, -1, agents, 0.3),
        "field_missing": _powers(rng, -3, -1.3, agents, 0.2),
        "replay_failed": _powers(rng, -3, -1, agents, 0.4),
        "unsafe": _powers(rng, -3.5, -1.3, agents, 0.2),
        "incoherent": _powers(rng, -2, -0.4, agents, 0.05),
    }
    shapes = _bumps(rng.uniform(0.5, 0.95, (agents, 3)), rng.uniform(0.06, 0.18, (agents, 3)))
    others = _bumps(rng.uniform(0.3, 0.9, (agents, 3)), rng.uniform(0.06, 0.25, (agents, 3)))
    share = np.where(rng.random(agents) < 0.4, rng.uniform(0.05, 0.5, agents), 0.0)
    in_window = np.arange(days) >= days - window.window_days
    mixed = (share[:, None] * in_window)[..., None, None]
    histograms = (1 - mixed) * shapes[:, None] + mixed * others[:, None]
    bias = rng.normal(0.03, 0.08, (agents, 1)) + rng.normal(0, 0.04, (agents, N_BINS))
    success = np.clip(CONFIDENCE_IN_BIN - bias, 0.02, 0.99)
    return Behaviour(
        _every_day(np.stack([rates[rate] for rate in RATES], axis=-1), days),
        histograms,
        _every_day(success, days),
    )


def benign(agents: int, days: int) -> Behaviour:
    """One and the same good agent, many times."""
    rates = {
        "renamed": 0.0,
        "overridden": 0.01,
        "chain_broken": 0.0,
        "poor": 0.01,
        "field_missing": 0.01,
        "replay_failed": 0.01,
        "unsafe": 0.005,
        "incoherent": 0.05,
    }
    shapes = _bumps(np.array([[0.8, 0.75, 0.85]]), np.array([[0.1, 0.12, 0.08]]))
    return Behaviour(
        np.broadcast_to(np.array([rates[rate] for rate in RATES]), (agents, days, len(RATES))).copy(),
        np.broadcast_to(shapes, (agents, days, len(METRICS), N_BINS)).copy(),
        np.broadcast_to(CONFIDENCE_IN_BIN - 0.02, (agents, days, N_BINS)).copy(),
    )


def _bumps(centre: Floats, width: Floats) -> Floats:
    """Distributions over the bins with one bump, (..., 10); the far bins stay empty."""
    density = np.exp(-(((CONFIDENCE_IN_BIN - centre[..., None]) / width[..., None]) ** 2) / 2)
    density = np.where(density < 1e-3, 0.0, density)
    result: Floats = density / density.sum(axis=-1, keepdims=True)
    return result


def _every_day(values: Floats, days: int) -> Floats:
    return np.repeat(values[:, None], days, axis=1)


def traces_per_day(n: int, window: Window, agents: int, days: int, rng: np.random.Generator) -> Integers:
    """Busy and quiet days, (agents, days), with exactly n traces in every stretch as long as the window."""
    busy = rng.gamma(8.0, 1.0, (agents, days))
    traces = np.zeros((agents, days), dtype=np.int64)
    for last in range(days, 0, -window.window_days):
        first = max(last - window.window_days, 0)
        stretch = busy[:, first:last]
        expected = max(round(n * (last - first) / window.window_days), 1)
        traces[:, first:last] = rng.multinomial(expected, stretch / stretch.sum(axis=1, keepdims=True))
    return traces


def _facts(case: Case, agents: int, days: int, rng: np.random.Generator) -> Facts:
    n = traces_per_day(case.n, case.window, agents, days, rng)
    if case.benign:
        n_episodes, n_deferrals = np.zeros(agents, dtype=np.int64), np.zeros(agents, dtype=np.int64)
    else:
        weeks = case.window.window_days / 7
        n_episodes = rng.poisson(EPISODES, agents)
        n_deferrals = rng.poisson(DEFERRALS_PER_WEEK * weeks, agents)
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


# --- What makes agents special -------------------------------------------------------------------------------------


def with_rates(**rates: float) -> Change:
    """Agents with these rates on every day."""

    def change(of: Agents) -> Agents:
        changed = of.behaviour.rates.copy()
        for rate, value in rates.items():
            changed[..., RATES.index(rate)] = value
        return of.doing(rates=changed)

    return change


def perfect(of: Agents) -> Agents:
    """Agents without fault, of which every score is 1."""
    rates, histograms, success = of.behaviour
    at_one = np.broadcast_to(np.eye(N_BINS)[-1], histograms.shape)
    return of.doing(rates=np.zeros_like(rates), histograms=at_one, success=np.ones_like(success))


def faultless(of: Agents) -> Agents:
    """Agents without fault, certain of their successes, whose other two metrics scatter as they do elsewhere."""
    without_fault = perfect(of)
    histograms = of.behaviour.histograms.copy()
    histograms[:, :, 0] = without_fault.behaviour.histograms[:, :, 0]
    return without_fault.doing(histograms=histograms)


def changed_midway(of: Agents) -> Agents:
    """Agents that get worse in the middle of the window: more overrides, incoherence, and missing fields."""
    rates = of.behaviour.rates.copy()
    late = slice(rates.shape[1] - of.window.window_days // 2, None)
    for rate, more in (("overridden", 0.05), ("incoherent", 0.2), ("poor", 0.1), ("unsafe", 0.03)):
        column = RATES.index(rate)
        rates[:, late, column] = np.minimum(rates[:, late, column] + more, 1)
    return of.doing(rates=rates)


def miscalibrated(by: float) -> Change:
    """Agents whose confidence lies above their success by this much."""
    success = np.clip(CONFIDENCE_IN_BIN - by, 0.02, 0.98)
    return lambda of: of.doing(success=np.broadcast_to(success, of.behaviour.success.shape))


def drifted(share: float) -> Change:
    """Agents whose metrics, in the window, come with this share from elsewhere."""

    def change(of: Agents) -> Agents:
        histograms = of.behaviour.histograms.copy()
        late = slice(histograms.shape[1] - of.window.window_days, None)
        histograms[:, late] = (1 - share) * histograms[:, late] + share * elsewhere()
        return of.doing(histograms=histograms)

    return change


def elsewhere() -> Floats:
    """The distribution that drift brings in, (3, 10)."""
    return _bumps(np.full(3, 0.45), np.full(3, 0.12))


def with_episodes(n: int, hours: float, rho_regression: float = 0.0) -> Change:
    """Agents with this many episodes of this mean duration, and this share of them again in the same mode."""

    def change(of: Agents) -> Agents:
        count = np.full_like(of.facts.n_episodes, n)
        mean_hours, rho = np.full(len(count), hours), np.full(len(count), rho_regression)
        return of.given(n_episodes=count, mean_hours=mean_hours, rho_regression=rho)

    return change


def with_deferrals(n: int) -> Change:
    """Agents with this many judged deferrals, seven in ten of full worth."""

    def change(of: Agents) -> Agents:
        outcomes = np.broadcast_to(np.array([0.7, 0.15, 0.15]), of.facts.deferral_outcomes.shape)
        return of.given(n_deferrals=np.full_like(of.facts.n_deferrals, n), deferral_outcomes=outcomes)

    return change


def bad_days(of: Agents) -> Agents:
    """Agents of which one day in ten is bad; the truth is the expectation over which days are."""
    return of.doing(rates=0.9 * of.behaviour.rates + 0.1 * on_a_bad_day(of.behaviour.rates))


def on_a_bad_day(rates: Floats) -> Floats:
    """Rates of a bad day."""
    more = {"overridden": 0.1, "chain_broken": 0.2, "poor": 0.2, "unsafe": 0.05, "incoherent": 0.3}
    result: Floats = np.minimum(rates + np.array([more.get(rate, 0.0) for rate in RATES]), 1.0)
    return result


# --- The table -----------------------------------------------------------------------------------------------------


def cells() -> list[Case]:
    """Plausible agents: n traces × window × days alike or days that differ."""
    return [
        Case(f"n = {n}, {days} days, days {'differ' if differ else 'alike'}", n, window, differ)
        for days, window in WINDOWS.items()
        for differ in (False, True)
        for n in SIZES
    ]


def special_cases() -> list[Case]:
    """Cases whose coverage is stated: at least 87 %."""
    window = WINDOWS[7]
    return [
        Case("alone in its fleet", 300, window, True, fleet=1),
        Case("alone in its fleet, 30 days", 300, WINDOWS[30], True, fleet=1),
        Case("change in the middle of the window", 600, window, change=changed_midway),
        Case("clustered traces (5 alike)", 600, window, cluster=5),
        Case("behaviour wanders", 600, window, True, wanders=True),
        Case("behaviour wanders, 30 days", 600, WINDOWS[30], True, wanders=True),
        Case("one day in ten bad", 600, window, change=bad_days),
        Case("one day in ten bad, 30 days", 600, WINDOWS[30], change=bad_days),
        Case("strongly miscalibrated", 600, window, change=miscalibrated(0.3)),
        Case("miscalibrated alike everywhere", 2_000, window, True, change=miscalibrated(0.1)),
        Case("stuck", 600, window, change=with_episodes(1, 24.0)),
        Case("relapsing", 600, window, change=with_episodes(8, 0.7, 0.75)),
    ]


def edge_agents() -> list[Case]:
    """Named agents, otherwise one and the same good agent, with 600 traces in 7 days."""
    window = WINDOWS[7]
    changes: dict[str, Change] = {
        "all perfect": perfect,
        "faultless, metrics scatter": faultless,
        "chain 0": with_rates(chain_broken=1.0),
        "half the links broken": with_rates(chain_broken=0.5),
        "2 % overridden": with_rates(overridden=0.02),
        "12 % overridden": with_rates(overridden=0.12),
        "miscalibrated by 0.4": miscalibrated(0.4),
        "drifted": drifted(0.3),
        "few deferrals": with_deferrals(2),
        "episodes": with_episodes(4, 0.5),
    }
    return [Case(name, 600, window, change=change, benign=True) for name, change in changes.items()]
