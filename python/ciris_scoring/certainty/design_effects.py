"""Design effects: variance of a rate over its variance with independent traces (Kish 1965, Survey Sampling, page 258).

A design effect is measured from the differences of neighbouring days, so that a lasting change of a rate counts once
(von Neumann 1941, Annals of Mathematical Statistics 12, 367–395). The days of one agent say little, so its effect is
shrunk towards 1 + (h − 1) · c, where h is its number of traces per day and c the fleet's correlation of the traces
of a day. certainty.md §3 defines all of it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.certainty.events import FLEET_WEIGHT, episode_sums
from ciris_scoring.certainty.inputs import COUNTED, EVENT_UNITS, Counts, Pairs, day_sums, totals_of_days
from ciris_scoring.windows.arrays import Booleans, Floats, Integers, between, ratio
from ciris_scoring.windows.sums import Events

EFFECT_DAYS = 90
"""Days before the as-of over which design effects and durations of episodes are measured."""
LEAST_EFFECT: Floats = np.array([0.1 if name == "i_coverage" else 1.0 for name in COUNTED])
"""Smallest design effect of each quantity. Coverage counts ten fields per trace: if they were independent, the variance
would be a tenth of that of one event per trace."""
DAYS_PER_DEGREE = 1.5
"""Number of pairs of neighbouring days whose squared differences give one degree of freedom, for normal values."""
MOST_CORRELATION = 0.15
"""Largest correlation of the fleet's traces of a day. Set by simulation."""
EPISODE_CV, MOST_LOG_VARIANCE = 1.8, 9.0
"""Prior of the fleet's coefficient of variation of episode durations, with the weight ``FLEET_WEIGHT``; and largest
variance of the logarithms of durations."""
MIN_EPISODES, MOST_EPISODES = 3, 1_000.0
"""Range of the number of episodes of an agent that count for the fleet: fewer say almost nothing about the variation,
and no single agent should decide."""
VARIATION_UNITS, SIZE_UNITS, FLEET_UNITS = 2.0**40, 2.0**20, 2.0**30
"""Numbers of integer units per 1 of a squared difference, of a trial, and of the fleet's sums. Sums of integers do not
depend on their order, or on that of agents."""


class FleetValues(NamedTuple):
    """Correlation of the traces of a day, (periods + 1, 8), and coefficient of variation of the durations of fragile
    episodes, (periods + 1,), of a fleet by as-of."""

    correlation: Floats
    episode_cv: Floats


class Steps(NamedTuple):
    """Variation between neighbouring days over ``EFFECT_DAYS``, of n pairs of an agent and an as-of; (n, 8) each: the
    sums of squared differences of rates, weighted by n n′/(n + n′), of pairs of days with trials; the mean of 2nn′/(n +
    n′), the number of trials a day that they are about; n̄ = Σn²/Σn, the mean number of trials on a trial's day; and the
    variance of an outcome."""

    squares: Floats
    pairs: Floats
    per_pair: Floats
    per_day: Floats
    variance: Floats


def day_steps(counts: Counts, pairs: Pairs, per_day: int) -> Steps:
    """Return the variation between days of n pairs of an agent and an as-of."""
    days_y, days_n = (day_sums(one, per_day) for one in (counts.events, counts.trials))
    unit = 1 / EVENT_UNITS
    squares, both = squared_steps(ratio(days_y, days_n * unit), days_n, per_day)
    now, before = days_n[:, per_day:], days_n[:, :-per_day]
    size = ratio(2 * now * before, now + before)
    variation = np.zeros((3, *days_n.shape), dtype=np.int64)
    for row, values in enumerate((np.rint(squares * VARIATION_UNITS), both, np.rint(size * SIZE_UNITS))):
        variation[row, :, per_day:] = values
    totals = totals_of_days(np.concatenate([*variation, days_n * days_n, days_y, days_n], axis=-1), per_day)
    sums = between(totals, pairs.agent, pairs.as_of - EFFECT_DAYS * per_day, pairs.as_of).astype(np.float64)
    observed, n_pairs, sizes, squared, bad, trials = np.split(sums, 6, axis=-1)
    share = ratio(bad, trials * unit)
    per_pair = ratio(sizes / SIZE_UNITS, n_pairs)
    return Steps(observed / VARIATION_UNITS, n_pairs, per_pair, ratio(squared, trials), share * (1 - share))


def empty_fleet(n_periods: int) -> Integers:
    """Return sums of 0, (periods + 1, 9, 2), to which :func:`add_to_fleet` adds. For each as-of and each quantity in
    ``COUNTED``, they are Σ w(F − 1)(h − 1) and Σ w(h − 1)², with h = ``Steps.per_pair``; last come the squared
    deviations of the logarithms of durations, and degrees of freedom."""
    return np.zeros((n_periods + 1, len(COUNTED) + 1, 2), dtype=np.int64)


def add_to_fleet(counts: Counts, events: Events, pairs: Pairs, fleet: Integers, per_day: int) -> None:
    """Add the agents of n pairs of an agent and an as-of to the fleet's sums, in place."""
    steps = day_steps(counts, pairs, per_day)
    more = np.maximum(steps.per_pair - 1, 0)
    own = ratio(steps.squares, steps.pairs * steps.variance, 1.0)
    slope = np.clip(own - 1, -more, more)
    weight = np.where(steps.variance > 0, steps.pairs / DAYS_PER_DEGREE, 0.0)
    found = episode_sums(events.episodes, pairs, (EFFECT_DAYS,), per_day)
    n, logs, squares = (values[:, 0].astype(np.float64) for values in found[:3])
    degrees = np.where(n >= MIN_EPISODES, np.minimum(n, MOST_EPISODES) - 1, 0.0)
    variance = np.maximum(squares - ratio(logs**2, n), 0) / np.maximum(n - 1, 1)
    first = np.column_stack([weight * slope * more, degrees * variance])
    second = np.column_stack([weight * more * more, degrees])
    np.add.at(fleet, pairs.as_of, np.rint(np.stack([first, second], axis=-1) * FLEET_UNITS).astype(np.int64))


def fleet_values(fleet: Integers) -> FleetValues:
    """Return the fleet's correlations and coefficient of variation, from the sums over all agents."""
    first, second = np.moveaxis(fleet / FLEET_UNITS, -1, 0)
    log_variance = (FLEET_WEIGHT * np.log1p(EPISODE_CV**2) + first[:, -1]) / (FLEET_WEIGHT + second[:, -1])
    return FleetValues(
        np.clip(ratio(first[:, :-1], second[:, :-1]), 0.0, MOST_CORRELATION),
        np.sqrt(np.expm1(np.minimum(log_variance, MOST_LOG_VARIANCE))),
    )


def design_effects(steps: Steps, correlation: Floats) -> Floats:
    """Return the design effects of n pairs, (n, 8), shrunk towards those that the fleet's correlations imply."""
    fleet = 1 + np.maximum(steps.per_pair - 1, 0) * correlation
    own = effect_of_steps(steps.squares, steps.pairs, fleet, steps.variance)
    # A sum over days is dominated by the busy days, whose traces are clustered most.
    return np.maximum(1 + (own - 1) * ratio(steps.per_day, steps.per_pair, 1.0), LEAST_EFFECT)


def squared_steps(rate: Floats, n: NDArray[Any], apart: int = 1) -> tuple[Floats, Booleans]:
    """Return squared differences of rates of neighbouring days or weeks, weighted by n n′/(n + n′), and whether the
    numbers of trials n and n′ are above 0. Neighbours are ``apart`` on the axis of times, (n, times, q)."""
    now, before = n[:, apart:], n[:, :-apart]
    squares = ratio(now * before, now + before) * (rate[:, apart:] - rate[:, :-apart]) ** 2
    return squares, (now > 0) & (before > 0)


def effect_of_steps(
    squares: Floats, pairs: Floats | Integers, prior: Floats, variance: Floats, weight: float = FLEET_WEIGHT
) -> Floats:
    """Return design effects from sums of the squares of :func:`squared_steps`, of pairs of neighbours with trials.

    :param prior: design effects towards which the results are shrunk, with ``weight`` degrees of freedom. They are the
        result if ``variance``, that of an outcome, is 0.
    """
    observed = squares / DAYS_PER_DEGREE + weight * prior * variance
    return ratio(observed, (pairs / DAYS_PER_DEGREE + weight) * variance, prior)
