"""Sums over the fragile episodes and deferrals of the days before an as-of (certainty.md §4 and §4b)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.certainty.counts import Pairs
from ciris_scoring.windows.arrays import Floats, Integers, ratio
from ciris_scoring.windows.sums import NEVER, UNITS, Deferrals, FragileEpisodes

FLEET_WEIGHT = 10.0
"""Weight, in degrees of freedom, of the fleet's estimate when an agent's estimate is shrunk towards it."""
LEAST_LOG_HOURS = float(np.log(0.01))
"""Logarithm of the shortest duration of an episode in hours. Otherwise a difference of one second between very short
episodes would be a large difference of logarithms (certainty.md §4 and §4b)."""
LOG_UNITS, SQUARE_UNITS = 1_000_000_000_000, 10_000_000_000
"""Number of integer units per 1 in running totals of logarithms of hours, and of their squares."""
MICROSECONDS_PER_HOUR = 3_600_000_000


def log_hours(microseconds: Integers) -> Floats:
    """Return the natural logarithm of each duration in hours, at least ``LEAST_LOG_HOURS`` (certainty.md §4b).

    Logarithms are rounded to 12 decimals, so that sums in ``LOG_UNITS`` are exact.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(microseconds / MICROSECONDS_PER_HOUR)
    return np.round(np.maximum(logs, LEAST_LOG_HOURS), 12).astype(np.float64)


def _positions(
    agent: Integers, period: Integers, pairs: Pairs, days: tuple[int, ...], periods_per_day: int
) -> NDArray[np.intp]:
    """Return the position of the first event of each pair's agent that is not earlier than each time, (n, times);
    without such an event, the position after the agent's last event.

    :param agent: (m,) agents of the events, which are ordered by agent and ``period``.
    :param days: times in days before the as-of.
    """
    ends = pairs.as_of[:, None] - np.array(days) * periods_per_day
    low = min(int(period.min(initial=0)), int(ends.min(initial=0)))
    width = max(int(period.max(initial=0)), int(ends.max(initial=0))) - low + 1
    result: NDArray[np.intp] = np.searchsorted(
        agent * width + period - low, pairs.agent[:, None] * width + ends - low, side="left"
    )
    return result


def _sums_since(positions: NDArray[np.intp], amounts: Integers) -> Integers:
    """Return sums of the amounts from each position in a row until the row's last position (half-open), (n, days)."""
    total = np.concatenate([[0], np.cumsum(amounts)])
    result: Integers = total[positions[:, -1:]] - total[positions[:, :-1]]
    return result


class EpisodeSums(NamedTuple):
    """Sums over the episodes that ended in given numbers of days before the as-of, for n pairs; (n, days) each."""

    n: Integers
    log_hours: Floats
    """Sums of the natural logarithms of the episodes' durations in hours."""
    log_hours_squared: Floats
    repeats: Integers
    """Number of episodes that have the failure mode of the agent's previous episode, if both episodes ended in these
    days."""


def episode_sums(episodes: FragileEpisodes, pairs: Pairs, days: tuple[int, ...], periods_per_day: int) -> EpisodeSums:
    """Return sums over the episodes that ended in each given number of days before the as-of of each pair. An open
    episode does not count."""
    ended = episodes.ended()
    order = np.lexsort((ended.recovered, ended.agent))  # stable: ties keep the order of traces
    agent, recovered, mode = ended.agent[order], ended.recovered[order], ended.mode[order]
    hours = log_hours(ended.microseconds[order])
    again = np.zeros(len(agent) + 1, dtype=np.int64)
    again[1:-1] = (agent[1:] == agent[:-1]) & (mode[1:] == mode[:-1])
    positions = _positions(agent, recovered, pairs, (*days, 0), periods_per_day)
    n = positions[:, -1:] - positions[:, :-1]
    # A repetition counts only within a window. So the first episode of a window does not count as a repetition.
    first_repeats = np.where(n > 0, again[positions[:, :-1]], 0)
    return EpisodeSums(
        n,
        _sums_since(positions, np.rint(hours * LOG_UNITS).astype(np.int64)) / LOG_UNITS,
        _sums_since(positions, np.rint(hours * hours * SQUARE_UNITS).astype(np.int64)) / SQUARE_UNITS,
        _sums_since(positions, again[:-1]) - first_repeats,
    )


def deferral_sums(
    deferrals: Deferrals, pairs: Pairs, days: tuple[int, ...], periods_per_day: int
) -> tuple[Integers, Floats]:
    """Return the number, and the total value, of the deferrals whose outcome became known in each given number of days
    before the as-of, (n, days) each. A deferral has a value from 0 to 1."""
    known = np.maximum(deferrals.created, deferrals.judged)
    order = np.lexsort((known, deferrals.agent))
    order = order[known[order] < NEVER]
    positions = _positions(deferrals.agent[order], known[order], pairs, (*days, 0), periods_per_day)
    n = positions[:, -1:] - positions[:, :-1]
    return n, _sums_since(positions, deferrals.value[order]) / UNITS


def days_observed(first_period: Integers, pairs: Pairs, days: tuple[int, ...], periods_per_day: int) -> Floats:
    """Return the number of observed days in each given number of days before the as-of, (n, days). An agent is observed
    from the start of the period with its first trace.

    :param first_period: (agents,) period of each agent's first trace; it may be negative.
    """
    age = (pairs.as_of - first_period[pairs.agent]) / periods_per_day
    return np.minimum(np.array(days, dtype=np.float64), age[:, None])


def variance_of_log_hours(n: Floats, log_hours: Floats, squares: Floats, episode_cv: Floats) -> tuple[Floats, Floats]:
    """Return the variance of the logarithms of the hours of episodes, and its degrees of freedom (certainty.md §4b).

    The variance of n episodes of the agent is shrunk towards that of the fleet with ``FLEET_WEIGHT``.

    :param log_hours: sum of the logarithms of the episodes' hours; ``squares``, of their squares.
    :param episode_cv: the fleet's coefficient of variation of episode durations.
    """
    spread = np.maximum(squares - ratio(log_hours**2, n), 0.0)
    degrees = FLEET_WEIGHT + np.maximum(n - 1, 0)
    return (FLEET_WEIGHT * np.log1p(episode_cv**2) + spread) / degrees, degrees
