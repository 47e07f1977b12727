"""Design effects: variance of a rate over its variance with independent traces (Kish 1965, Survey Sampling, page 258).

An agent's days say little about its design effect: over 7 + 23 days, the ratio of observed to expected variation has a
standard error of 0.27. So this ratio is shrunk towards 1 + (n̄ − 1) · icc, Kish's design effect of clusters. icc is the
fleet's correlation of traces within a day, and n̄ the agent's number of traces per day (certainty.md §3, "Design
effect"). The weight of the agent's ratio is the inverse of its variance. The weight of the fleet's value is fixed, like
the prior degrees of freedom of a moderated variance (Smyth 2004, Statistical Applications in Genetics and Molecular
Biology 3, article 3).

The constants were set by simulation, so that 95 % intervals contain the truth as often as docs/measuring.md
("Intervals") says. ``make bench BENCH='coverage --part intervals'`` repeats the simulation.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.residuals import EFFECTS, Residuals
from ciris_scoring.windows.inputs import Floats, Integers, Places, ratio

FLEET_WEIGHT = 10.0
"""Weight of the fleet's estimate when an agent's estimate is shrunk towards it. For the design effects of rates and
calibration, the weight is an inverse variance (:func:`own_weight`; certainty.md §3). For the steady score, changes and
durations of episodes, it is in degrees of freedom (certainty.md §4 and §4b)."""

FLEET_WEIGHT_HISTOGRAM = 4.0
"""Weight of the fleet's design effect when the design effect of an agent's histogram is shrunk towards it, in degrees
of freedom. Set by simulation."""

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


def own_weight(residuals: Residuals) -> Floats:
    """Return the weight of an agent's ratio of observed to expected variation; 0 if ``degrees`` or ``expected`` is 0.

    The weight is the inverse of the ratio's approximate variance 2/ν + 1/E. ν is the degrees of freedom, E the expected
    sum of squares. 2/ν is the term of any sample variance, 1/E the term of the excess kurtosis of Poisson counts.

    :param residuals: (n, q) residuals; the weights have the same shape.
    """
    informative = (residuals.degrees > 0) & (residuals.expected > 0)
    degrees = np.where(informative, residuals.degrees, 1.0)
    expected = np.where(informative, residuals.expected, 1.0)
    return np.where(informative, 1 / (2 / degrees + 1 / expected), 0.0)


def add_correlations(sums: FleetSums, rows: Places, residuals: Residuals) -> None:
    """Add the weighted correlations of traces within a day, one for each of n rows, to ``sums.icc``, in place.

    :param rows: agent, as-of and window of the n rows.
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


def design_effects(residuals: Residuals, icc: Floats) -> Floats:
    """Compute design effects of rates and calibration: the agent's ratio of observed to expected variation, shrunk
    towards the fleet's design effect.

    :param residuals: (n, q) variation between days, of the first q quantities of ``EFFECTS``.
    :param icc: (n, q) the fleet's correlation at each row's window and as-of.
    :returns: (n, q) design effects, at least ``LEAST_EFFECT``.
    """
    width = residuals.observed.shape[1]
    weight = own_weight(residuals)
    own = residuals.observed / np.where(weight > 0, residuals.expected, 1.0)
    shrunk = (weight * own + FLEET_WEIGHT * fleet_effect(residuals, icc)) / (weight + FLEET_WEIGHT)
    return np.maximum(LEAST_EFFECT[:width], shrunk)


def fleet_effect(residuals: Residuals, icc: Floats) -> Floats:
    """Return the design effect that the fleet's correlation implies, at least the smallest of ``LEAST_EFFECT``.

    :param residuals: (n, q) variation between days, of which only ``mean_per_day`` is used.
    :param icc: (n, q) the fleet's correlation at each row's window and as-of; the result has the same shape.
    """
    result: Floats = np.maximum(LEAST_EFFECT.min(), 1 + (residuals.mean_per_day - 1) * icc)
    return result


class HistogramEffect(NamedTuple):
    """Design effect of each metric's histogram, and tr V and tr V² of its design-effect matrix V; (n, 3) each."""

    effect: Floats
    """Mean design effect of the bins, 1 or more."""
    t1: Floats
    """tr V: ``effect`` times (bins used − 1)."""
    t2: Floats
    """tr V²: between (tr V)²/(bins used − 1) and (tr V)²."""


def histogram_effect(
    residuals: Residuals, trace: Floats, squared_trace: Floats, free_bins: Floats, icc: Floats
) -> HistogramEffect:
    """Compute the mean design effect, tr V and tr V² of each histogram's design-effect matrix V, shrunk towards the
    fleet's.

    The agent's V is a sample covariance with ν degrees of freedom. Chance inflates its tr V² to (1 + 1/ν) tr V² +
    (tr V)²/ν. The estimator of Bai and Saranadasa (1996, Statistica Sinica 6, 311–329) corrects this. V is shrunk as a
    whole, towards the multinomial covariance (I − √p √pᵀ) times the fleet's design effect, where p are the shares of
    the bins.

    :param residuals: (n, 3) residuals of the histograms, in the order of ``METRICS``.
    :param trace: (n, 3) the agent's own tr V.
    :param squared_trace: (n, 3) the agent's own tr V².
    :param free_bins: (n, 3) number of bins that the window or the baseline uses, less 1.
    :param icc: (n, 3) the fleet's correlations of traces within a day.
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
