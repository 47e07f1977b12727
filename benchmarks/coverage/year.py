"""Simulate a year of agents that change at unknown times: compare scores with the long-run score, and decisions by
them.

The long-run score is the mean score under an agent's present behaviour, over windows with and without episodes and
deferrals (certainty.md §4b).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage.alarms import PARAMETERS, watched
from benchmarks.coverage.behaviour import RATES, Behaviour, DayEffects, only_traces
from benchmarks.coverage.cases import CORROBORATED, MOST_ICC, WINDOWS, plausible
from benchmarks.coverage.events import MODES, EventRates, draw_events, durations
from benchmarks.coverage.truth import truth
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers, Window
from ciris_scoring.statistics.resilience import resilience_score

AGENTS = 50
"""Agents in a fleet."""

DAYS = 365
BEFORE = 127
"""Days before the first observed day: the longest window, the steady days before it, and a week."""

CHANGES = 1.5
"""Mean number of changes of an agent over all days."""

STRETCHES = 6
"""Maximum number of periods of constant behaviour."""

SHARE_CHANGED = 0.4
"""Share of an agent's properties that each change affects."""

THRESHOLD = 0.6
WINDOWS_DRAWN = 400
"""Number of windows over which the expected score is averaged."""


class Lives(NamedTuple):
    """Behaviour of agents by period of constant behaviour."""

    stretch: Integers
    """Index of the period, (agents, days)."""
    behaviour: Behaviour
    """Behaviour, (agents, periods, ...)."""
    rates: EventRates
    """Event rates, (agents, periods)."""


class Standing(NamedTuple):
    """A score over the year; arrays of (agents, days)."""

    score: Floats
    low: Floats
    high: Floats
    long_run: Floats
    stretch: Integers
    """Index of the agent's period of constant behaviour."""
    alarm: Booleans
    """Whether ``falling`` or ``episode`` is raised."""


def live(agents: int, days: int, rng: np.random.Generator) -> Lives:
    """Draw agents and their changes. Each change draws some properties again."""
    drawn = plausible(agents * STRETCHES, 1, 0, rng)
    n_changes = np.minimum(rng.poisson(CHANGES, agents), STRETCHES - 1)
    day_of_change = np.where(
        np.arange(STRETCHES - 1) < n_changes[:, None], rng.integers(1, days, (agents, STRETCHES - 1)), days
    )
    stretch = (day_of_change[:, :, None] <= np.arange(days)).sum(axis=1)

    def lasting(values: NDArray[Any]) -> NDArray[Any]:
        """Return values of (agents · periods, ...) of which only some change from one period to the next."""
        of_stretch = values.reshape(agents, STRETCHES, *values.shape[1:])
        for i in range(1, STRETCHES):
            stays = rng.random(agents) >= SHARE_CHANGED
            of_stretch[stays, i] = of_stretch[stays, i - 1]
        return of_stretch

    n = agents * STRETCHES
    episodes = np.where(rng.random(n) < 0.2, 0.0, 10.0 ** rng.uniform(-2.3, -0.8, n))
    return Lives(
        stretch,
        Behaviour(
            np.stack([lasting(drawn.rates[:, 0, i]) for i in range(len(RATES))], axis=-1),
            lasting(drawn.histograms[:, 0]),
            lasting(drawn.success[:, 0]),
        ),
        EventRates(
            lasting(episodes),
            lasting(10.0 ** rng.uniform(-1.5, 0.5, n)),
            lasting(10.0 ** rng.uniform(-1.2, -0.2, n)),
            lasting(rng.uniform(0.6, 1.0, n)),
        ),
    )


def long_run(lives: Lives, window: Window, rng: np.random.Generator) -> Floats:
    """Return the mean score of each period if it continued forever, (agents, periods)."""
    shape = lives.rates.episodes.shape
    rates = EventRates(*(values.ravel() for values in lives.rates))
    n = len(rates.episodes)
    days = window.horizon_days
    ones = np.ones((n, days), dtype=np.int64)
    facts = only_traces(ones, ones)
    flat = Behaviour(*(values.reshape(n, *values.shape[2:]) for values in lives.behaviour))
    every_day = Behaviour(*(np.repeat(values[:, None], days, axis=1) for values in flat))
    usual = truth(every_day, facts, window, PARAMETERS, days).factors

    episodes = rng.poisson(rates.episodes[:, None] * window.window_days, (n, WINDOWS_DRAWN))
    hours, modes = np.zeros(episodes.shape), np.zeros(episodes.shape, dtype=np.int64)
    for k in range(int(episodes.max())):
        lasted, _ = durations(np.broadcast_to(rates.mean_hours[:, None], episodes.shape), rng)
        hours += np.where(k < episodes, lasted, 0.0)
        modes |= np.where(k < episodes, 1 << rng.integers(0, MODES, episodes.shape), 0)
    distinct = sum((modes >> mode) & 1 for mode in range(MODES))
    some = np.maximum(episodes, 1)
    of_resilience = PARAMETERS.mttr_scale_hours, PARAMETERS.norm_k, PARAMETERS.norm_x0
    no_drift, rho = np.zeros(episodes.shape), (episodes - distinct) / some
    r = resilience_score(no_drift, hours / some, rho, *of_resilience).mean(axis=1)
    no_deferral = np.exp(-rates.deferrals * window.window_days)
    worth = no_deferral + (1 - no_deferral) * rates.good
    result: Floats = usual[:, 0] * usual[:, 1] * r * usual[:, 3] * worth * usual[:, 4]
    return result.reshape(shape)


def a_year(seed: int, number: int) -> dict[str, Standing]:
    """Simulate and score one fleet. Return the results by name of the score."""
    rng = np.random.default_rng([seed, number])
    lives = live(AGENTS, BEFORE + DAYS, rng)
    agent = np.arange(AGENTS)[:, None]
    of_day = (agent, lives.stretch)
    behaviour = Behaviour(*(values[of_day] for values in lives.behaviour))
    events = draw_events(EventRates(*(values[of_day] for values in lives.rates)), rng)
    per_week = np.clip(600 * np.exp(rng.normal(size=(AGENTS, 1))), 60, 6000)
    n_traces = rng.poisson(per_week / 7 * rng.gamma(8.0, 1 / 8, lives.stretch.shape))
    facts = only_traces(n_traces, rng.binomial(n_traces, CORROBORATED))
    effects = DayEffects(rng.uniform(0, MOST_ICC, AGENTS))
    week, month, raised = watched(behaviour, events, facts, effects, BEFORE + 1, rng)
    alarm = raised.against_week | raised.against_month | raised.episode
    stretch = lives.stretch[:, BEFORE:]
    weekly, monthly = (long_run(lives, window, rng)[agent, stretch] for window in WINDOWS.values())
    return {
        "week": Standing(*week[:3], weekly, stretch, alarm),
        "30 days": Standing(*month[:3], monthly, stretch, alarm),
        "steady": Standing(*week[3:6], weekly, stretch, alarm),
    }


def together(years: Sequence[dict[str, Standing]]) -> dict[str, Standing]:
    """Concatenate the results of several fleets."""
    return {
        name: Standing(*map(np.concatenate, zip(*(year[name] for year in years), strict=True)))
        for name in years[0]
    }


def accuracy(name: str, of: Standing) -> dict[str, Any]:
    """Return the accuracy of a score relative to the long-run score. Shares are of agent-days."""
    there = ~np.isnan(of.score)
    score, low, high, expected = (values[there] for values in of[:4])
    of_stretch = (np.arange(len(of.score))[:, None] * STRETCHES + of.stretch)[there]
    n, total = np.bincount(of_stretch), np.bincount(of_stretch, score)
    within = score - (total / np.maximum(n, 1))[of_stretch]
    return {
        "score": name,
        "coverage": np.mean((low <= expected) & (expected <= high)),
        "median width": np.median(high - low),
        "error": np.sqrt(np.mean((score - expected) ** 2)),
        "jumps": np.sqrt(np.mean(within**2)),
        "decided at 0.6": np.mean((low >= THRESHOLD) | (high < THRESHOLD)),
    }


def outcomes(name: str, of: Standing) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of two ways to decide on a permission, compared with the long-run score of the same window."""
    yield _outcome(f"{name}, point", of.score >= THRESHOLD, of.long_run)
    if name == "steady":
        held = held_by_interval(of.low, of.high, of.alarm)
        yield _outcome(f"{name}, interval, review", held, of.long_run)
    else:
        yield _outcome(f"{name}, interval", held_by_interval(of.low, of.high), of.long_run)


def held_by_interval(low: Floats, high: Floats, alarm: Booleans | None = None) -> Booleans:
    """Return who holds the permission on each day. It is kept while the threshold lies inside the interval.

    :param alarm: days with an alert. It revokes the permission until no alert is raised and the lower bound reaches
    the threshold.
    """
    held, now = np.zeros(low.shape, dtype=bool), np.zeros(len(low), dtype=bool)
    for day in range(low.shape[1]):
        now = (now | (low[:, day] >= THRESHOLD)) & ~(high[:, day] < THRESHOLD)
        if alarm is not None:
            now &= ~alarm[:, day]
        held[:, day] = now
    return held


def _outcome(policy: str, held: Booleans, expected: Floats) -> dict[str, Any]:
    deserved = expected >= THRESHOLD
    days = []
    for agent, day in np.argwhere(deserved[:, :-1] & ~deserved[:, 1:]):
        if held[agent, day]:
            gone = ~held[agent, day + 1 :]
            days.append(int(np.argmax(gone)) if gone.any() else gone.size)
    return {
        "decided by": policy,
        "wrong grants": np.mean(held & ~deserved),
        "wrong denials": np.mean(~held & deserved),
        "changes a year": np.mean(np.sum(held[:, 1:] != held[:, :-1], axis=1)) * 365 / held.shape[1],
        "days to take away": np.median(days) if days else np.nan,
    }
