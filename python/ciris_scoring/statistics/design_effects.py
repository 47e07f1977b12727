"""Design effects: how many times more variance a rate has than independent traces would give it.

An agent's own days say little about it (7 + 23 days give a ratio with a standard error of 0.27), so its own ratio is
shrunk towards what the fleet's correlation within days implies for as many traces a day as the agent has.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.inputs import Floats, Integers, Places
from ciris_scoring.statistics.residuals import EFFECTS, Residuals, ratio

FLEET_WEIGHT = 10.0
"""Degrees of freedom that the fleet's value counts as, for rates and calibration."""

FLEET_WEIGHT_HISTOGRAM = 4.0
"""The same for histograms, in days."""

LEAST_EFFECT: Floats = np.array([0.1 if effect == "i_coverage" else 1.0 for effect in EFFECTS])
"""Least design effect. A trace's ten fields are not one yes or no: alone, they would give coverage 0.1."""

ICC_RANGE = (-0.05, 0.15)
ICC_RANGE_OF_AN_AGENT = (-0.1, 1.0)

EPISODE_CV = 1.8
"""Coefficient of variation of an episode's duration where the fleet has shown none; weight as of ``FLEET_WEIGHT``."""

MIN_EPISODES = 3
"""Recovered episodes of an agent from which on their variation counts."""

MOST_LOG_VARIANCE = 9.0
"""Of durations, which keeps their coefficient of variation below 100."""

MOST_EPISODES = 1_000.0
"""Episodes above which an agent's say does not grow."""

UNIT = 2.0**-36
UNIT_EPISODES = 2.0**-30
"""Units of the fleet's sums. They are whole numbers, so that neither the order nor the chunking of agents matters."""


class FleetSums(NamedTuple):
    """Sums over agents per window and as-of, whose arrays begin with (windows, periods + 1)."""

    icc: Integers
    """(..., 11, 2): Σ weight · correlation and Σ weight, in ``UNIT``, in the order of ``EFFECTS``."""
    episodes: Integers
    """(..., 2): sum of squares of logarithms of durations, and their degrees of freedom, in ``UNIT_EPISODES``."""


def joined_sums(some: FleetSums, others: FleetSums) -> FleetSums:
    """Sums over the agents of both; chunks may be joined in any order."""
    return FleetSums(some.icc + others.icc, some.episodes + others.episodes)


class FleetValues(NamedTuple):
    """What an agent's limits take from the fleet, per window and as-of; stored once the as-of is final.

    A stored as-of is given by writing its values into these arrays.
    """

    icc: Floats
    """(windows, periods + 1, 11) correlation of the traces of a day, in the order of ``EFFECTS``."""
    episode_cv: Floats
    """(windows, periods + 1) coefficient of variation of the durations of fragile episodes."""


def empty_fleet_sums(n_windows: int, n_periods: int) -> FleetSums:
    """Sums over no agents."""
    return FleetSums(
        np.zeros((n_windows, n_periods + 1, len(EFFECTS), 2), dtype=np.int64),
        np.zeros((n_windows, n_periods + 1, 2), dtype=np.int64),
    )


def own_weight(residuals: Residuals) -> Floats:
    """Weight of an agent's own ratio, 1 / (2/degrees of freedom + 1/expected), 0 without information."""
    informative = (residuals.degrees > 0) & (residuals.expected > 0)
    degrees = np.where(informative, residuals.degrees, 1.0)
    expected = np.where(informative, residuals.expected, 1.0)
    return np.where(informative, 1 / (2 / degrees + 1 / expected), 0.0)


def add_correlations(sums: FleetSums, rows: Places, residuals: Residuals) -> None:
    """Add the rows' correlations to the fleet's sums, in place.

    :param residuals: (n, 11), in the order of ``EFFECTS``.
    """
    clustered = residuals.clustering > 0
    icc = (residuals.observed - residuals.expected) / np.where(clustered, residuals.clustering, 1.0)
    weight = np.where(clustered, own_weight(residuals), 0.0)
    weighted = np.stack([weight * np.clip(icc, *ICC_RANGE_OF_AN_AGENT), weight], axis=-1)
    np.add.at(sums.icc, (rows.window, rows.as_of), np.rint(weighted / UNIT).astype(np.int64))


def add_episodes(
    sums: FleetSums, rows: Places, n: Floats, log_hours: Floats, log_hours_squared: Floats
) -> None:
    """Add the variation of the rows' episodes to the fleet's sums, in place.

    The variation is that of logarithms within agents: of a log-normal it gives the coefficient of variation without
    bias, however few episodes an agent has, where s/mean of three falls short by a half.

    :param n: (n,) episodes recovered in window and baseline, with the sums of the logarithms of their durations and of
        the squares of these.
    """
    usable = n >= MIN_EPISODES
    count = np.where(usable, n, MIN_EPISODES)
    variance = np.maximum(log_hours_squared - log_hours**2 / count, 0) / (count - 1)
    degrees = np.where(usable, np.minimum(count, MOST_EPISODES) - 1, 0.0)
    terms = np.stack([degrees * variance, degrees], axis=-1)
    np.add.at(sums.episodes, (rows.window, rows.as_of), np.rint(terms / UNIT_EPISODES).astype(np.int64))


def fleet_values(sums: FleetSums) -> FleetValues:
    """Correlations and coefficient of variation from the sums over all agents."""
    weighted, weight = sums.icc[..., 0].astype(np.float64), sums.icc[..., 1].astype(np.float64)
    episodes = sums.episodes.astype(np.float64) * UNIT_EPISODES
    prior = FLEET_WEIGHT * np.log1p(EPISODE_CV**2)
    log_variance = (prior + episodes[..., 0]) / (FLEET_WEIGHT + episodes[..., 1])
    return FleetValues(
        np.clip(ratio(weighted, weight), *ICC_RANGE),
        np.sqrt(np.expm1(np.minimum(log_variance, MOST_LOG_VARIANCE))),
    )


def design_effects(residuals: Residuals, icc: Floats) -> Floats:
    """Design effects of rates and calibration: the agent's own ratio, shrunk towards the fleet's.

    :param residuals: (n, q), the first q of ``EFFECTS``.
    :param icc: (n, q), the fleet's correlation at each row's window and as-of.
    :returns: (n, q), at least ``LEAST_EFFECT``.
    """
    width = residuals.observed.shape[1]
    weight = own_weight(residuals)
    own = residuals.observed / np.where(weight > 0, residuals.expected, 1.0)
    shrunk = (weight * own + FLEET_WEIGHT * fleet_effect(residuals, icc)) / (weight + FLEET_WEIGHT)
    result: Floats = np.maximum(LEAST_EFFECT[:width], shrunk)
    return result


def fleet_effect(residuals: Residuals, icc: Floats) -> Floats:
    """Design effect that the fleet's correlation implies; a negative one cannot be, whatever the traces per day."""
    result: Floats = np.maximum(LEAST_EFFECT.min(), 1 + (residuals.mean_per_day - 1) * icc)
    return result


class HistogramEffect(NamedTuple):
    """First two moments of the design-effect matrices of the metrics' histograms, (n, 3) each."""

    effect: Floats
    """Mean design effect of the bins, 1 or more."""
    t1: Floats
    """tr V, ``effect`` times (bins used − 1)."""
    t2: Floats
    """tr V², between t1²/(bins used − 1) and t1²."""


def histogram_effect(
    residuals: Residuals, trace: Floats, squared_trace: Floats, free_bins: Floats, icc: Floats
) -> HistogramEffect:
    """Moments of V, shrunk towards the fleet's.

    The agent's own tr V² is that of a sample covariance with ν degrees of freedom, which chance alone inflates to
    (1 + 1/ν) tr V² + (tr V)²/ν. V is shrunk as a whole, towards the multinomial (I − √p √pᵀ) times the fleet's effect.

    :param residuals: (n, 3), with tr V in ``trace`` and tr V² in ``squared_trace``.
    :param free_bins: (n, 3) bins used by window or baseline, less 1.
    :param icc: (n, 3) the fleet's correlations.
    """
    degrees = np.where(residuals.expected > 0, residuals.degrees, 0.0)
    own = residuals.observed / np.where(degrees > 0, residuals.expected, 1.0)
    fleet = fleet_effect(residuals, icc)
    total = degrees + FLEET_WEIGHT_HISTOGRAM
    shrunk = (degrees * own + FLEET_WEIGHT_HISTOGRAM * fleet) / total
    effect = np.maximum(1.0, shrunk)
    bins = np.maximum(free_bins, 1.0)

    estimable = (degrees > 1) & (trace > 0)
    nu = np.where(estimable, degrees, 2.0)
    corrected = nu**2 / ((nu - 1) * (nu + 2)) * (squared_trace - trace**2 / nu)
    shape = np.where(estimable, corrected / np.where(trace > 0, trace, 1.0) ** 2, 0.0)
    own_t1 = own * bins
    own_t2 = np.clip(shape, 1 / bins, 1.0) * own_t1**2
    shrunk_t2 = (
        degrees**2 * own_t2
        + 2 * degrees * FLEET_WEIGHT_HISTOGRAM * fleet * own_t1
        + FLEET_WEIGHT_HISTOGRAM**2 * fleet**2 * bins
    ) / total**2
    t1 = effect * free_bins
    return HistogramEffect(effect, t1, np.clip(shrunk_t2, t1**2 / bins, t1**2))
