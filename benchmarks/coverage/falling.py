"""How often the alert ``falling`` is raised on agents that did not change, and on agents that did."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import (
    RATES,
    Behaviour,
    DayEffects,
    Facts,
    draw,
    draw_events,
    realised,
)
from benchmarks.coverage.cases import (
    CORROBORATED,
    DEFERRALS_PER_WEEK,
    EPISODES,
    FLEET,
    MOST_ICC,
    SIZES,
    WINDOWS,
    benign,
    stationary,
    traces_per_day,
)
from benchmarks.coverage.measure import limits_of_fleets
from ciris_scoring.steps.intervals import Window, is_falling
from ciris_scoring.steps.intervals.inputs import Booleans, Floats

FALLING_THRESHOLD = 0.15
DAYS_WATCHED = 28


class Unchanged(NamedTuple):
    """Alerts on agents that did not change."""

    name: str
    agent_days: int
    raised: float
    """Share of agents' days with the alert."""
    agents_raised: float
    """Share of agents with the alert on any of ``DAYS_WATCHED`` days."""
    raised_by_threshold: float
    """Share of agents' days with a drop of the threshold, intervals aside: the alert as it would be without them."""


class Dropped(NamedTuple):
    """Alerts on agents that got worse."""

    name: str
    agents: int
    within_a_window: float
    """Share of agents with the alert on one of the first 7 days."""
    ever: float
    """Share with the alert on one of ``DAYS_WATCHED`` days."""
    median_drop: float
    """Drop of the score a window after the change."""


class Planted(NamedTuple):
    """A lasting change for the worse."""

    name: str
    rate: str | None = None
    value: float = 0.0
    lowered: float = 0.0
    """Share of the traces whose three metrics go down by 0.1, a bin."""


PLANTED = (
    Planted("12 % overridden", "overridden", 0.12),
    Planted("a quarter of links broken", "chain_broken", 0.25),
    Planted("metrics drift by 0.1", lowered=1.0),
    Planted("delta_drift of 0.1", lowered=0.37),
)


class Population(NamedTuple):
    """Agents that do not change."""

    name: str
    plausible: bool
    """Whether a plausible fleet, or the same good agent many times."""
    days_differ: bool
    events: bool
    """Whether fragile episodes and deferrals come and go."""


POPULATIONS = (
    Population("good agent", False, False, False),
    Population("good agent, days differ", False, True, False),
    Population("plausible, no events", True, False, False),
    Population("plausible, no events, days differ", True, True, False),
    Population("plausible, episodes and deferrals come and go", True, False, True),
)


def unchanged(population: Population, n: int, window: Window, agents: int, seed: int) -> Unchanged:
    """Watch agents that do not change, at ``n`` traces per window."""
    rng = np.random.default_rng([seed, n, window.window_days, *population.name.encode()])
    agents = -(-agents // FLEET) * FLEET
    days = window.memory_days + window.window_days + DAYS_WATCHED
    behaviour = stationary(agents, days, rng) if population.plausible else benign(agents, days)
    icc = MOST_ICC if population.days_differ else 0.0
    score, low, high = _watch(behaviour, n, window, rng, icc=icc, events=population.events)
    alerts, drops = _alerts(score, low, high, window)
    return Unchanged(
        f"n = {n}, {window.window_days} days, {population.name}",
        alerts.size,
        float(np.mean(alerts)),
        float(np.mean(np.any(alerts, axis=1))),
        float(np.mean(drops >= FALLING_THRESHOLD)),
    )


def dropped(planted: Planted, agents: int, seed: int, *, plausible: bool = False, n: int = 600) -> Dropped:
    """Watch agents from the day on which they get worse: a good agent, or plausible ones, with a window of 7 days."""
    window = WINDOWS[7]
    rng = np.random.default_rng([seed, plausible, *planted.name.encode()])
    agents = -(-agents // FLEET) * FLEET
    days = window.memory_days + window.window_days + DAYS_WATCHED
    behaviour = stationary(agents, days, rng) if plausible else benign(agents, days)
    late = slice(days - DAYS_WATCHED, None)
    rates, histograms = behaviour.rates.copy(), behaviour.histograms.copy()
    if planted.rate is not None:
        column = RATES.index(planted.rate)
        rates[:, late, column] = np.minimum(rates[:, late, column] + planted.value, 1)
    histograms[:, late] = (1 - planted.lowered) * histograms[:, late] + planted.lowered * _lowered(
        histograms[:, late]
    )
    # Calibration stays as it is: success follows the confidence.
    changed = Behaviour(rates, histograms, behaviour.success)
    score, low, high = _watch(changed, n, window, rng, icc=0.0, events=plausible)
    alerts, drops = _alerts(score, low, high, window)
    return Dropped(
        f"{planted.name}, {'plausible agents' if plausible else 'good agent'}",
        agents,
        float(np.mean(np.any(alerts[:, : window.window_days], axis=1))),
        float(np.mean(np.any(alerts, axis=1))),
        float(np.median(drops[:, window.window_days - 1])),
    )


def all_unchanged(agents: int, seed: int) -> list[Unchanged]:
    """Every population, window and n."""
    return [
        unchanged(population, n, window, agents, seed)
        for population in POPULATIONS
        for window in WINDOWS.values()
        for n in SIZES
    ]


def all_dropped(agents: int, seed: int) -> list[Dropped]:
    """Every planted drop, on the good agent and on plausible ones."""
    return [
        dropped(planted, agents, seed, plausible=plausible)
        for plausible in (False, True)
        for planted in PLANTED
    ]


def _lowered(histograms: Floats) -> Floats:
    """Distributions moved down by a bin; the first bin stays."""
    moved = np.zeros_like(histograms)
    moved[..., :-1] = histograms[..., 1:]
    moved[..., 0] += histograms[..., 0]
    return moved


def _watch(
    behaviour: Behaviour, n: int, window: Window, rng: np.random.Generator, *, icc: float, events: bool
) -> tuple[Floats, Floats, Floats]:
    """Scores with their limits, (agents, window_days + DAYS_WATCHED as-ofs), one as-of a day."""
    agents, days = behaviour.rates.shape[:2]
    traces = traces_per_day(n, window, agents, days, rng)
    good = rng.uniform(0.6, 1.0, agents)
    facts = Facts(
        n_traces=traces,
        n_corroborated=rng.binomial(traces, CORROBORATED),
        n_episodes=np.zeros(agents, dtype=np.int64),
        mean_hours=10.0 ** rng.uniform(-1.5, 0.5, agents),
        rho_regression=np.zeros(agents),
        n_deferrals=np.zeros(agents, dtype=np.int64),
        deferral_outcomes=np.stack([good, (1 - good) / 2, (1 - good) / 2], axis=-1),
    )
    effects = DayEffects(np.multiply(icc, rng.random(agents)))
    sums = draw(realised(behaviour, effects, rng), facts, effects, rng)
    as_ofs = list(range(days - DAYS_WATCHED - window.window_days + 1, days + 1))
    per_day = (EPISODES / window.window_days, DEFERRALS_PER_WEEK / 7) if events else (0.0, 0.0)
    given = draw_events(*per_day, facts, as_ofs, window.window_days, rng)
    result = limits_of_fleets(sums, given, window, as_ofs, FLEET)
    shape = (agents, len(as_ofs))
    return (
        result.capacity_score.reshape(shape),
        result.capacity_score_low.reshape(shape),
        result.capacity_score_high.reshape(shape),
    )


def _alerts(score: Floats, low: Floats, high: Floats, window: Window) -> tuple[Booleans, Floats]:
    """Alerts and drops, (agents, DAYS_WATCHED)."""
    before = slice(0, score.shape[1] - window.window_days)
    after = slice(window.window_days, None)
    alerts = is_falling(score[:, before], low[:, before], score[:, after], high[:, after], FALLING_THRESHOLD)
    drops = np.nan_to_num(score[:, before] - score[:, after], nan=0.0)
    return alerts, drops
