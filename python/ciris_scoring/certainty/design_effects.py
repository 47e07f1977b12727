"""Design effects: variance of a rate over its variance with independent traces (Kish 1965, Survey Sampling, page 258).

An agent's days say little about its design effect: over 7 + 23 days, the ratio of observed to expected variation has a
standard error of 0.27. So the bounds of every agent use Kish's design effect of clusters, 1 + (n̄ − 1) · icc. icc is the
fleet's correlation of traces within a day, and n̄ the agent's number of traces per day (certainty.md §3, "Design
effect").

The constants were set by simulation, so that 95 % intervals contain the truth as often as docs/measuring.md
("Intervals") says. ``make bench BENCH='coverage --part intervals'`` repeats the simulation.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.residuals import EFFECTS, Residuals
from ciris_scoring.windows.inputs import Floats, Integers, Places, ratio

FLEET_WEIGHT = 10.0
"""Weight, in degrees of freedom, of the fleet's estimate when an agent's estimate is shrunk towards it: of design
effects for the steady score and changes, and of durations of episodes (certainty.md §4 and §4b)."""

LEAST_EFFECT: Floats = np.array([0.1 if effect == "i_coverage" else 1.0 for effect in EFFECTS])
"""Smallest design effect of each quantity in ``EFFECTS`` (certainty.md §3). Coverage counts ten fields per trace. If
the fields were independent, the variance of coverage would be a tenth of the variance with one event per trace."""

ICC_RANGE = (-0.05, 0.15)
"""Limits to which the fleet's correlation of traces within a day is clipped. Set by simulation."""
ICC_RANGE_OF_AN_AGENT = (-0.1, 1.0)
"""Limits to which the correlation of one agent's traces within a day is clipped before it enters the fleet's mean. Set
by simulation."""

EPISODE_CV = 1.8
"""Prior of the fleet's coefficient of variation of episode durations (certainty.md §3), with the weight
``FLEET_WEIGHT``. It is the result if no agent has ``MIN_EPISODES`` recovered episodes."""

MIN_EPISODES = 3
"""Smallest number of recovered episodes from which an agent's variation of durations is used. Fewer episodes say almost
nothing about it. The value is a choice; docs/measuring.md was measured with it."""

MOST_LOG_VARIANCE = 9.0
"""Largest variance of the logarithms of durations of episodes. It limits the coefficient of variation to √(e⁹ − 1) =
90. The value is a choice."""

MOST_EPISODES = 1_000.0
"""Largest number of episodes that count for one agent, so that no single agent decides the fleet's value. The number is
a choice."""

UNIT, UNIT_EPISODES = 2.0**-36, 2.0**-30
"""Size of an integer unit in the sums of correlations, and in the sums of episodes. Sums are integers, so a result does
not depend on the order of agents or on their division into chunks."""


class FleetSums(NamedTuple):
    """Sums over the agents of a fleet, per window and as-of. Both arrays begin with the axes (windows, periods + 1)."""

    icc: Integers
    """(..., 11, 2): Σ weight · correlation and Σ weight, in ``UNIT``, in the order of ``EFFECTS``."""
    episodes: Integers
    """(..., 2): sum of squared deviations of the logarithms of durations, and degrees of freedom, in
    ``UNIT_EPISODES``."""


class FleetValues(NamedTuple):
    """Values of the fleet that every agent's bounds depend on, per window and as-of."""

    icc: Floats
    """(windows, periods + 1, 11) correlation of the traces of a day, in the order of ``EFFECTS``."""
    episode_cv: Floats
    """(windows, periods + 1) coefficient of variation of the durations of fragile episodes."""


def empty_fleet_sums(n_windows: int, n_periods: int) -> FleetSums:
    """Return sums of 0, to which sums of agents can be added. ``n_periods`` is the number of periods of the arrays."""
    return FleetSums(
        np.zeros((n_windows, n_periods + 1, len(EFFECTS), 2), dtype=np.int64),
        np.zeros((n_windows, n_periods + 1, 2), dtype=np.int64),
    )


def add_correlations(sums: FleetSums, rows: Places, residuals: Residuals) -> None:
    """Add the weighted correlations of traces within a day, one for each of n rows, to ``sums.icc``, in place.

    The weight is the inverse of the approximate variance of the ratio of observed to expected variation, 2/ν + 1/E. ν
    is the degrees of freedom, E the expected sum of squares. 2/ν is the term of any sample variance, 1/E the term of
    the excess kurtosis of Poisson counts.

    :param rows: agent, as-of and window of the n rows.
    :param residuals: (n, 11), in the order of ``EFFECTS``.
    """
    observed, *others = residuals
    informative = np.minimum.reduce(others) > 0
    expected, clustering, degrees = (np.where(informative, values, 1.0) for values in others)
    icc = np.clip((observed - expected) / clustering, *ICC_RANGE_OF_AN_AGENT)
    weight = np.where(informative, 1 / (2 / degrees + 1 / expected), 0.0)
    weighted = np.stack([weight * icc, weight], axis=-1)
    np.add.at(sums.icc, (rows.window, rows.as_of), np.rint(weighted / UNIT).astype(np.int64))


def add_episodes(sums: FleetSums, rows: Places, n: Floats, log_hours: Floats, log_hours_squared: Floats) -> None:
    """Add the variation of the episode durations of n rows to the fleet's sums, in place.

    The variation is the variance of the logarithms within agents, which is unbiased however few episodes an agent has.
    The sample coefficient of variation of three episodes would be too small by half.

    :param rows: agent, as-of and window of the n rows.
    :param n: (n,) numbers of episodes that ended in the window or the baseline.
    :param log_hours: (n,) sums of the logarithms of these episodes' durations in hours.
    :param log_hours_squared: (n,) sums of the squares of these logarithms.
    """
    usable = n >= MIN_EPISODES
    count = np.where(usable, n, MIN_EPISODES)
    variance = np.maximum(log_hours_squared - log_hours**2 / count, 0) / (count - 1)
    degrees = np.where(usable, np.minimum(count, MOST_EPISODES) - 1, 0.0)
    terms = np.stack([degrees * variance, degrees], axis=-1)
    np.add.at(sums.episodes, (rows.window, rows.as_of), np.rint(terms / UNIT_EPISODES).astype(np.int64))


def fleet_values(sums: FleetSums) -> FleetValues:
    """Compute the fleet's correlations, and its coefficient of variation of durations, from the sums over all agents
    (certainty.md §3)."""
    weighted, weight = sums.icc[..., 0].astype(np.float64), sums.icc[..., 1].astype(np.float64)
    episodes = sums.episodes.astype(np.float64) * UNIT_EPISODES
    prior = FLEET_WEIGHT * np.log1p(EPISODE_CV**2)
    log_variance = (prior + episodes[..., 0]) / (FLEET_WEIGHT + episodes[..., 1])
    return FleetValues(
        np.clip(ratio(weighted, weight), *ICC_RANGE),
        np.sqrt(np.expm1(np.minimum(log_variance, MOST_LOG_VARIANCE))),
    )


def fleet_effects(mean_per_day: Floats, icc: Floats) -> Floats:
    """Return the design effects that the fleet's correlations imply, at least 0.1.

    :param mean_per_day: mean numbers of traces on the day of a trace; all arrays have one shape.
    :param icc: the fleet's correlations of the traces of a day.
    """
    result: Floats = np.maximum(LEAST_EFFECT.min(), 1 + (mean_per_day - 1) * icc)
    return result
