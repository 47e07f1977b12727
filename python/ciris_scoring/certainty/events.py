"""Sums over the fragile episodes and deferrals of the days before an as-of, and changes of them for the alert
``episode`` (certainty.md §4 and §4b, which define all constants; docs/measuring.md, "Alarms", was measured with them).

A comparison is the signed root of a likelihood ratio, which is about standard normal if nothing has changed. Durations
are compared by their logarithms, so that one long episode does not decide.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.certainty.inputs import Pairs, Present, Sides
from ciris_scoring.windows.arrays import Floats, Integers, ratio
from ciris_scoring.windows.sums import NEVER, UNITS, Deferrals, Events, FragileEpisodes

FLEET_WEIGHT = 10.0
"""Weight, in degrees of freedom, of the fleet's estimate when an agent's estimate is shrunk towards it."""
LEAST_LOG_HOURS = float(np.log(0.01))
"""Logarithm of the shortest duration of an episode in hours. Otherwise a difference of one second between very short
episodes would be a large difference of logarithms (certainty.md §4 and §4b)."""
LOG_UNITS, SQUARE_UNITS = 1_000_000_000_000, 10_000_000_000
"""Number of integer units per 1 in running totals of logarithms of hours, and of their squares."""
MICROSECONDS_PER_HOUR = 3_600_000_000
RECENT_WINDOWS, BASE_DAYS = (7, 28), 322
"""Lengths in days of the recent windows, and number of days before each window with which it is compared."""
LEAST_EPISODES = 2
"""Smallest number of episodes in a recent window that can be ``more_often`` than before."""
WORSE_BEFORE, DEFERRALS_BEFORE = 0.25, 0.5
"""Prior for the deferrals before: 0.5 deferrals, with a loss (1 − value) of 0.25, because few deferrals say little."""
KINDS = ("longer", "more_often", "judged_worse")
"""Ways in which events can be worse. If several have the same ``z``, the first of them is reported."""


def log_hours(microseconds: Integers) -> Floats:
    """Return the natural logarithm of each duration in hours, at least ``LEAST_LOG_HOURS`` (certainty.md §4b), rounded
    to 12 decimals, so that sums in ``LOG_UNITS`` are exact."""
    with np.errstate(divide="ignore"):
        logs = np.log(microseconds / MICROSECONDS_PER_HOUR)
    return np.round(np.maximum(logs, LEAST_LOG_HOURS), 12).astype(np.float64)


def _positions(
    agent: Integers, period: Integers, pairs: Pairs, days: tuple[int, ...], per_day: int
) -> NDArray[np.intp]:
    """Return the position of the first event of each pair's agent in the last ``days``, (n, days), or the one after the
    agent's last event. Events are ordered by agent and period."""
    ends = pairs.as_of[:, None] - np.array(days) * per_day
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
    """Sums over the episodes that ended in given numbers of days before the as-of, for n pairs; (n, days) each: of the
    natural logarithms of durations in hours, of their squares, and of repeats. A repeat has the failure mode of the
    agent's previous episode, if both ended in these days."""

    n: Integers
    log_hours: Floats
    log_hours_squared: Floats
    repeats: Integers


def episode_sums(episodes: FragileEpisodes, pairs: Pairs, days: tuple[int, ...], per_day: int) -> EpisodeSums:
    """Return sums over the episodes that ended in each given number of days before the as-of of each pair. An open
    episode does not count."""
    ended = episodes.ended()
    order = np.lexsort((ended.recovered, ended.agent))  # stable: ties keep the order of traces
    agent, recovered, mode = ended.agent[order], ended.recovered[order], ended.mode[order]
    hours = log_hours(ended.microseconds[order])
    again = np.zeros(len(agent) + 1, dtype=np.int64)
    again[1:-1] = (agent[1:] == agent[:-1]) & (mode[1:] == mode[:-1])
    positions = _positions(agent, recovered, pairs, (*days, 0), per_day)
    n = positions[:, -1:] - positions[:, :-1]
    # A repetition counts only within a window. So the first episode of a window does not count as a repetition.
    first_repeats = np.where(n > 0, again[positions[:, :-1]], 0)
    return EpisodeSums(
        n,
        _sums_since(positions, np.rint(hours * LOG_UNITS).astype(np.int64)) / LOG_UNITS,
        _sums_since(positions, np.rint(hours * hours * SQUARE_UNITS).astype(np.int64)) / SQUARE_UNITS,
        _sums_since(positions, again[:-1]) - first_repeats,
    )


def deferral_sums(deferrals: Deferrals, pairs: Pairs, days: tuple[int, ...], per_day: int) -> tuple[Integers, Floats]:
    """Return the number, and the total value, of the deferrals whose outcome became known in each given number of days
    before the as-of, (n, days) each. A deferral has a value from 0 to 1."""
    known = np.maximum(deferrals.created, deferrals.judged)
    order = np.lexsort((known, deferrals.agent))
    order = order[known[order] < NEVER]
    positions = _positions(deferrals.agent[order], known[order], pairs, (*days, 0), per_day)
    n = positions[:, -1:] - positions[:, :-1]
    return n, _sums_since(positions, deferrals.value[order]) / UNITS


def days_observed(first_period: Integers, pairs: Pairs, days: tuple[int, ...], per_day: int) -> Floats:
    """Return the number of observed days in each given number of days before the as-of, (n, days). An agent is observed
    from the start of the period with its first trace, which may be negative."""
    age = (pairs.as_of - first_period[pairs.agent]) / per_day
    return np.minimum(np.array(days, dtype=np.float64), age[:, None])


def variance_of_log_hours(n: Floats, log_hours: Floats, squares: Floats, episode_cv: Floats) -> tuple[Floats, Floats]:
    """Return the variance of the logarithms of the hours of n episodes, whose sum and sum of squares are given, and its
    degrees of freedom. It is shrunk towards that of the fleet with ``FLEET_WEIGHT`` (certainty.md §4b)."""
    spread = np.maximum(squares - ratio(log_hours**2, n), 0.0)
    degrees = FLEET_WEIGHT + np.maximum(n - 1, 0)
    return (FLEET_WEIGHT * np.log1p(episode_cv**2) + spread) / degrees, degrees


class EventChange(NamedTuple):
    """The most significant change for the worse of n pairs of an agent and an as-of; (n,) each.

    ``z`` is 0 if nothing is worse. ``days`` is the length of the recent window with the change. ``now`` is the value in
    that window, by ``kind``: typical hours of an episode (exp of the mean logarithm), number of episodes, or mean value
    of deferrals; NaN if nothing is worse. ``before`` is that of the days before, a number scaled to the window's days.
    """

    z: Floats
    kind: Integers
    days: Integers
    now: Floats
    before: Floats


def event_changes(events: Events, present: Present, per_day: int) -> EventChange:
    """Find the most significant change for the worse of episodes or deferrals of each pair of ``present``, from events
    of 350 days."""
    n_windows = len(RECENT_WINDOWS)
    at = present.pairs, (*RECENT_WINDOWS, *(days + BASE_DAYS for days in RECENT_WINDOWS)), per_day

    def sides(values: Floats | Integers, of_open: Floats | Integers | float = 0.0) -> Sides:
        recent, all_days = np.split(values.astype(np.float64), [n_windows], axis=1)
        return Sides(recent + np.reshape(of_open, (-1, 1)), all_days - recent)

    found = episode_sums(events.episodes, *at)
    n, logs = sides(found.n, present.n_open), sides(found.log_hours, present.open_log_hours)
    squares, observed = sides(found.log_hours_squared), sides(days_observed(events.first_period, *at))
    judged, value = (sides(of) for of in deferral_sums(events.deferrals, *at))
    lost = Sides(judged.now - value.now, judged.before - value.before)

    rose = share_rose(lost.now, judged.now, lost.before + WORSE_BEFORE, judged.before + DEFERRALS_BEFORE)
    often = excess(n.now, observed.now, n.before, observed.before)
    z = np.stack(
        [
            longer(n, logs, squares.before, present.episode_cv[:, None]),
            np.where(n.now >= LEAST_EPISODES, often, 0.0),
            np.where(judged.before > 0, rose, 0.0),
        ],
        axis=1,
    )
    numbers = Sides(n.now, n.before * ratio(observed.now, observed.before))
    now, before = (
        np.stack([np.exp(ratio(hours, count)), number, ratio(worth, of, np.nan)], axis=1)
        for hours, count, number, worth, of in zip(logs, n, numbers, value, judged, strict=True)
    )
    kind, window = np.divmod(np.argmax(z.reshape(len(z), len(KINDS) * n_windows), axis=1), n_windows)
    best = np.arange(len(z)), kind, window
    now, before = (np.where(z[best] > 0, values[best], np.nan) for values in (now, before))
    return EventChange(z[best], kind, np.array(RECENT_WINDOWS)[window], now, before)


def longer(n: Sides, log_hours: Sides, squares_before: Floats, episode_cv: Floats) -> Floats:
    """Compute how much longer n episodes are than before: √(ν ln(1 + t²/ν)), the root of a likelihood-ratio statistic;
    0 if they are not longer, or if the window or the days before it have none. t is the t statistic of the two mean
    logarithms of durations, and ν the degrees of freedom of their variance (certainty.md §4, "Longer")."""
    known = (n.now > 0) & (n.before > 0)
    now, before = (np.where(known, of, 1.0) for of in n)
    variance, degrees = variance_of_log_hours(before, log_hours.before, squares_before, episode_cv)
    rise = log_hours.now / now - log_hours.before / before
    t = np.maximum(rise / np.sqrt(variance * (1 / now + 1 / before)), 0)
    return np.where(known, np.sqrt(degrees * np.log1p(t * t / degrees)), 0.0)


def _log_term(count: Floats, expected: Floats) -> Floats:
    """Return count · ln(count / expected); 0 where the count is 0."""
    some = count > 0
    return np.where(some, count * np.log(ratio(np.where(some, count, 1.0), expected, 1.0)), 0.0)


def excess(n: Floats, exposure: Floats, n_before: Floats, exposure_before: Floats) -> Floats:
    """Compute how much higher a Poisson rate, n events per exposure, is than before: the root of a likelihood-ratio
    statistic, 0 where it is not higher, or where ``exposure_before`` is 0 (certainty.md §4, "More often")."""
    share = ratio(exposure, exposure + exposure_before, 1.0)
    expected, expected_before = (n + n_before) * share, (n + n_before) * (1 - share)
    deviance = 2 * (_log_term(n, expected) + _log_term(n_before, expected_before))
    return np.where(n > expected, np.sqrt(np.maximum(deviance, 0)), 0.0)


def share_rose(bad: Floats, n: Floats, bad_before: Floats, n_before: Floats) -> Floats:
    """Compute how much larger the share bad/n is than bad_before/n_before: the root of a likelihood-ratio statistic, 0
    where it is not larger (certainty.md §4, "Judged worse"). Bad events of n trials may have fractions."""
    share = ratio(bad + bad_before, n + n_before)
    deviance = sum(
        _log_term(some, trials * share) + _log_term(trials - some, trials * (1 - share))
        for some, trials in ((bad, n), (bad_before, n_before))
    )
    return np.where(bad > n * share, np.sqrt(np.maximum(2 * deviance, 0)), 0.0)
