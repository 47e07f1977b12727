"""Random fragile episodes and deferrals, and the published values that follow from them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.certainty.events import MICROSECONDS_PER_HOUR
from ciris_scoring.windows.arrays import Floats, Integers
from ciris_scoring.windows.sums import (
    UNITS,
    Deferrals,
    Events,
    FragileEpisodes,
    judged_deferrals,
    recovered_modes,
    recoveries,
)

EPISODE_SIGMA = 1.2
"""Sigma of the log-normal durations. Their coefficient of variation is 1.8."""

MODES = 5
"""Number of equally likely failure modes of an agent."""

WORTH: Floats = np.array([1.0, 0.5, 0.0])
"""Possible values of a resolved deferral."""


class EventRates(NamedTuple):
    """Expected events of agents, (agents, days), or (agents, segments) if behaviour is constant within a segment."""

    episodes: Floats
    """Episodes per day."""
    mean_hours: Floats
    deferrals: Floats
    """Deferrals per day."""
    good: Floats
    """Mean value of a resolved deferral, at least 0.25. Of the deferrals with a value below 1, half have the value 0.5
    and half the value 0."""


def durations(mean_hours: Floats, rng: np.random.Generator) -> Floats:
    """Draw a log-normal duration in hours for each mean."""
    return mean_hours * rng.lognormal(-(EPISODE_SIGMA**2) / 2, EPISODE_SIGMA, mean_hours.shape)


def draw_events(rates: EventRates, rng: np.random.Generator) -> Events:
    """Draw the events of each day from a Poisson distribution with the day's rate.

    An episode ends on the day on which it begins, and a deferral is judged on the day on which it is raised.
    """
    n = rng.poisson(rates.episodes)
    agent, day = (np.repeat(of_cell, n.ravel()) for of_cell in np.indices(n.shape).reshape(2, -1))
    hours = durations(rates.mean_hours[agent, day], rng)
    mode = rng.integers(0, MODES, len(agent))
    half = (1 - rates.good) * 2 / 3
    outcomes = rng.multinomial(rng.poisson(rates.deferrals), np.stack([1 - 2 * half, half, half], axis=-1))
    of_agent, of_day, outcome = (np.repeat(at, outcomes.ravel()) for at in np.indices(outcomes.shape).reshape(3, -1))
    microseconds = np.rint(hours * MICROSECONDS_PER_HOUR).astype(np.int64)
    return Events(
        Deferrals(
            of_agent,
            of_day,
            of_day,
            np.rint(WORTH[outcome] * UNITS).astype(np.int64),
            np.zeros(len(of_agent), dtype=np.int64),
        ),
        FragileEpisodes(agent, day, day, mode, np.arange(len(agent)), microseconds),
        np.zeros(len(n), dtype=np.int64),
    )


def within(values: NDArray[Any], as_ofs: Integers, first: int, last: int = 0) -> NDArray[Any]:
    """Return the sums of the daily ``values`` for each agent and as-of. The days begin ``first`` days, and end ``last``
    days, before the as-of."""
    totals = np.concatenate([np.zeros_like(values[:, :1]), np.cumsum(values, axis=1)], axis=1)
    result: NDArray[Any] = totals[:, np.maximum(as_ofs - last, 0)] - totals[:, np.maximum(as_ofs - first, 0)]
    return result


def row_facts(events: Events, as_ofs: Integers, window_days: int) -> list[NDArray[Any]]:
    """Return the fields of ``Rows`` from ``mttr_hours`` on, each as an array of (agents, as-ofs)."""
    shape = len(events.first_period), as_ofs[-1] + 1
    counted = judged_deferrals(events.deferrals, window_days, shape)
    for of_episodes in (recoveries, recovered_modes):
        counted |= of_episodes(events.episodes, window_days, shape)
    of = {name: values[:, as_ofs] for name, values in counted.items()}
    n, judged = of["n_recoveries"], of["n_judged_deferrals"]
    return [
        of["recovery_microseconds"] / MICROSECONDS_PER_HOUR / np.maximum(n, 1),
        n,
        (n - of["n_modes"]) / np.maximum(n, 1),
        np.where(judged > 0, of["value_of_judged_deferrals"] / UNITS / np.maximum(judged, 1), 1.0),
        judged,
    ]
