"""Fragile episodes and deferrals that come and go, and what rows take of them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.steps.episodes import Episodes
from ciris_scoring.steps.intervals.inputs import LEAST_LOG_HOURS, Floats, Integers

EPISODE_SIGMA = 1.2
"""Of the log-normal durations; their coefficient of variation is 1.8."""

MODES = 5
"""Failure modes of an agent, one as likely as another."""

WORTH: Floats = np.array([1.0, 0.5, 0.0])
"""What a judged deferral is worth."""

STEADY_DAYS = 90


class EventRates(NamedTuple):
    """What agents do in expectation; (agents, ...) each, by day or by stretch."""

    episodes: Floats
    """A day."""
    mean_hours: Floats
    deferrals: Floats
    """A day."""
    good: Floats
    """Mean value of a judged deferral, 0.25 or more; of the bad ones half are worth 0.5."""


class Events(NamedTuple):
    """What happened, (agents, days) each but for the last."""

    n_episodes: Integers
    hours: Floats
    log_hours: Floats
    log_hours_squared: Floats
    n_deferrals: Integers
    worth: Floats
    relapses: Integers
    """(n, 3): agent, and the days of an episode and of the next one of its mode."""


def durations(mean_hours: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A log-normal duration of each mean, and its logarithm."""
    hours: Floats = mean_hours * rng.lognormal(-(EPISODE_SIGMA**2) / 2, EPISODE_SIGMA, mean_hours.shape)
    return hours, np.maximum(np.log(hours), LEAST_LOG_HOURS)


def draw_events(rates: EventRates, rng: np.random.Generator) -> Events:
    """Events of every day, each at its day's rate (Poisson)."""
    n = rng.poisson(rates.episodes)
    agent, day = (np.repeat(of_cell, n.ravel()) for of_cell in np.indices(n.shape).reshape(2, -1))
    hours, logs = durations(rates.mean_hours[agent, day], rng)
    mode = rng.integers(0, MODES, len(agent))
    order = np.lexsort((day, mode, agent))
    whose = (agent * MODES + mode)[order]
    again = whose[1:] == whose[:-1]
    relapses = np.stack([agent[order][:-1], day[order][:-1], day[order][1:]], axis=-1)[again]

    def by_day(values: Floats) -> Floats:
        result = np.zeros(n.shape)
        np.add.at(result, (agent, day), values)
        return result

    n_deferrals = rng.poisson(rates.deferrals)
    half = (1 - rates.good) * 2 / 3
    outcomes = np.stack([1 - 2 * half, half, half], axis=-1)
    return Events(
        n,
        by_day(hours),
        by_day(logs),
        by_day(logs**2),
        n_deferrals,
        rng.multinomial(n_deferrals, outcomes) @ WORTH,
        relapses,
    )


def within(values: NDArray[Any], as_ofs: Integers, first: int, last: int = 0) -> NDArray[Any]:
    """Sums over the days from ``first`` before each as-of to ``last`` before it, (agents, as-ofs)."""
    totals = np.concatenate([np.zeros_like(values[:, :1]), np.cumsum(values, axis=1)], axis=1)
    result: NDArray[Any] = totals[:, np.maximum(as_ofs - last, 0)] - totals[:, np.maximum(as_ofs - first, 0)]
    return result


def row_facts(events: Events, as_ofs: Integers, window_days: int) -> list[NDArray[Any]]:
    """What rows take as published, (agents, as-ofs) each, in the order of ``Rows`` from ``mttr_hours`` on."""
    agents, days = events.n_episodes.shape
    relapsed = np.zeros((agents, days + window_days + 2), dtype=np.int64)
    agent, day, next_day = events.relapses.T
    near = next_day < day + window_days
    np.add.at(relapsed, (agent[near], next_day[near] + 1), 1)
    np.add.at(relapsed, (agent[near], day[near] + window_days + 1), -1)
    facts: list[NDArray[Any]] = []
    for back in (window_days, max(STEADY_DAYS, window_days)):
        n, judged = within(events.n_episodes, as_ofs, back), within(events.n_deferrals, as_ofs, back)
        facts += [within(events.hours, as_ofs, back) / np.maximum(n, 1), n]
        if back == window_days:
            facts.append(np.cumsum(relapsed, axis=1)[:, as_ofs] / np.maximum(n, 1))
        worth = within(events.worth, as_ofs, back)
        facts += [np.where(judged > 0, worth / np.maximum(judged, 1), 1.0), judged]
    return facts


def compared(events: Events, as_ofs: Integers, window_days: int) -> Episodes:
    """Episodes of each window and of the steady days before it, one row after another, as the statistics take them."""
    now, before = (window_days, 0), (window_days + STEADY_DAYS, window_days)
    columns = (
        (events.n_episodes, now),
        (events.log_hours, now),
        (events.n_episodes, before),
        (events.log_hours, before),
        (events.log_hours_squared, before),
    )
    return Episodes(*(within(values, as_ofs, *days).ravel() for values, days in columns))
