"""Find when an agent's fragile episodes or deferrals became worse, for the alert ``episode`` (certainty.md §4).

The events of the last 7 and 28 days are each compared with the events of up to 322 days before these days. A
comparison is the signed root of a likelihood ratio, which is about standard normal if nothing has changed. Durations
are compared by their logarithms, so that one long episode does not decide. certainty.md §4, "episode", defines all
constants. Their values are choices; docs/measuring.md, "Alarms", was measured with them.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.events import days_observed, deferral_sums, episode_sums, variance_of_log_hours
from ciris_scoring.certainty.inputs import Present, Sides
from ciris_scoring.windows.arrays import Floats, Integers, ratio
from ciris_scoring.windows.sums import Events

RECENT_WINDOWS, BASE_DAYS = (7, 28), 322
"""Lengths in days of the recent windows, and number of days before each window with which it is compared (certainty.md
§4)."""
LEAST_EPISODES = 2
"""Smallest number of episodes in a recent window that can be ``more_often`` than before (certainty.md §4)."""
WORSE_BEFORE, DEFERRALS_BEFORE = 0.25, 0.5
"""Prior for the deferrals before the recent window (certainty.md §4): 0.5 deferrals with a loss of 0.25 are added to
them, because few deferrals say little. The loss of a deferral is 1 − its value."""

KINDS = ("longer", "more_often", "judged_worse")
"""Ways in which events can be worse. If several have the same ``z``, the first of them is reported."""


class EventChange(NamedTuple):
    """The most significant change for the worse of n pairs of an agent and an as-of; (n,) each."""

    z: Floats
    """Signed root of the likelihood ratio of the change; 0 if nothing is worse."""
    kind: Integers
    """Index of ``KINDS``."""
    days: Integers
    """Length in days of the recent window with the change."""
    now: Floats
    """Value in the recent window, by ``kind``: typical hours of an episode (exp of the mean logarithm), number of
    episodes, or mean value of deferrals; NaN if nothing is worse."""
    before: Floats
    """The measure of ``now`` in the days before the recent window. A number of episodes is scaled to the window's days.
    """


def event_changes(events: Events, present: Present, periods_per_day: int) -> EventChange:
    """Find the most significant change for the worse of episodes or deferrals of each pair of ``present``.

    :param events: all episodes that ended, and deferrals whose outcome became known, from 350 days before the first
        as-of on.
    :param periods_per_day: 1 or 24.
    """
    n_windows = len(RECENT_WINDOWS)
    starts = (*RECENT_WINDOWS, *(days + BASE_DAYS for days in RECENT_WINDOWS))

    def sides(values: Floats | Integers, of_open: Floats | Integers) -> Sides:
        recent: Floats = values[:, :n_windows].astype(np.float64)
        all_days: Floats = values[:, n_windows:].astype(np.float64)
        return Sides(recent + np.reshape(of_open, (-1, 1)), all_days - recent)

    found = episode_sums(events.episodes, present.pairs, starts, periods_per_day)
    n, logs = sides(found.n, present.n_open), sides(found.log_hours, present.open_log_hours)
    squares, none = sides(found.log_hours_squared, np.zeros(1)), np.zeros(1)
    observed = sides(days_observed(events.first_period, present.pairs, starts, periods_per_day), none)
    judged, value = (sides(of, none) for of in deferral_sums(events.deferrals, present.pairs, starts, periods_per_day))
    lost = Sides(judged.now - value.now, judged.before - value.before)

    rose = share_rose(*(lost.now, judged.now), *(lost.before + WORSE_BEFORE, judged.before + DEFERRALS_BEFORE))
    z = np.stack(
        [
            longer(n, logs, squares.before, present.episode_cv[:, None]),
            np.where(n.now >= LEAST_EPISODES, excess(n.now, observed.now, n.before, observed.before), 0.0),
            np.where(judged.before > 0, rose, 0.0),
        ],
        axis=1,
    )
    as_many_days = ratio(observed.now, observed.before)
    now, before = (
        np.stack(values, axis=1)
        for values in zip(
            [np.exp(ratio(side, count)) for side, count in zip(logs, n, strict=True)],
            (n.now, n.before * as_many_days),
            [ratio(side, count, np.nan) for side, count in zip(value, judged, strict=True)],
            strict=True,
        )
    )
    best = np.argmax(z.reshape(len(z), len(KINDS) * n_windows), axis=1)
    kind, window = np.divmod(best, n_windows)
    of_best = np.arange(len(z)), kind, window
    is_worse = z[of_best] > 0
    return EventChange(
        z[of_best],
        kind,
        np.array(RECENT_WINDOWS)[window],
        np.where(is_worse, now[of_best], np.nan),
        np.where(is_worse, before[of_best], np.nan),
    )


def longer(n: Sides, log_hours: Sides, squares_before: Floats, episode_cv: Floats) -> Floats:
    """Compute how much longer episodes are than before: √(ν ln(1 + t²/ν)), the root of a likelihood-ratio statistic.

    t is the t statistic of the two mean logarithms of durations, and ν the degrees of freedom of their variance
    (certainty.md §4, "Longer").

    :param n: numbers of episodes in each recent window and in the days before it, (rows, windows) each.
    :param log_hours: sums of the logarithms of their hours.
    :param squares_before: (rows, windows) sums of the squared logarithms of hours before the recent window.
    :param episode_cv: (rows, 1) the fleet's coefficient of variation of episode durations.
    :returns: (rows, windows); 0 if episodes are not longer, or if the window or the days before it have no episode.
    """
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
    """Compute how much higher a Poisson rate is than before: the root of a likelihood-ratio statistic.

    Source: certainty.md §4, "More often".

    :param n: numbers of events; all arrays and the result have one shape.
    :param exposure: days or trials in which the ``n`` events happened.
    :param n_before: numbers of earlier events, in ``exposure_before`` days or trials.
    :returns: 0 where the rate is not higher than before, or where ``exposure_before`` is 0.
    """
    share = ratio(exposure, exposure + exposure_before, 1.0)
    expected, expected_before = (n + n_before) * share, (n + n_before) * (1 - share)
    deviance = 2 * (_log_term(n, expected) + _log_term(n_before, expected_before))
    return np.where(n > expected, np.sqrt(np.maximum(deviance, 0)), 0.0)


def share_rose(bad: Floats, n: Floats, bad_before: Floats, n_before: Floats) -> Floats:
    """Compute how much larger the share bad/n is than bad_before/n_before: the root of a likelihood-ratio statistic.

    Source: certainty.md §4, "Judged worse".

    :param bad: bad events, with fractions, of n trials; all arrays and the result have one shape.
    :returns: 0 where the share is not larger than before.
    """
    share = ratio(bad + bad_before, n + n_before)
    deviance = sum(
        _log_term(some, trials * share) + _log_term(trials - some, trials * (1 - share))
        for some, trials in ((bad, n), (bad_before, n_before))
    )
    return np.where(bad > n * share, np.sqrt(np.maximum(2 * deviance, 0)), 0.0)
