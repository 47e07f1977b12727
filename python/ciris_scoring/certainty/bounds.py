"""Confidence bounds of single components in closed form, at any level (certainty.md §3).

Lower values of these components are better: rate of bad events, ECE, drift, hours to recovery. So the lower bound
belongs to a better score and uses ``z_better``; the upper bound belongs to a worse score and uses ``z_worse``. The
estimate from which the bounds are computed lies between them. :mod:`intervals` widens the bounds to contain the
published value.

The constants were set by simulation, so that 95 % intervals contain the truth as often as docs/measuring.md
("Intervals") says. ``make bench BENCH='coverage --part intervals'`` repeats the simulation.
"""

import math
from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.inputs import Level
from ciris_scoring.windows.drift import N_BINS, smoothed
from ciris_scoring.windows.inputs import Booleans, Floats, ratio

BETTER_SIDE_OF_GAP = 0.846
"""Mean absolute gap of a bin whose true gap is 0, in standard deviations of the gap. For a normally distributed gap it
is √(2/π) = 0.798 (folded normal: Leone, Nelson and Nottingham 1961, Technometrics 3, 543–550). The rest is a margin,
set by simulation."""

SPREAD_OF_GAP = 0.516
"""Share of a gap's variance that is lost when the sign of a gap near 0 is dropped. For a normally distributed gap it is
2/π = 0.637. The smaller value widens the interval and was set by simulation."""

FOLDING_RANGE = 2.5
"""Distance of a gap from 0, in standard deviations, at which the corrections for gaps near 0 fade out. Set by
simulation."""

FEW_EVENTS = 4.0
"""Effective number of bad events below which Wilson's lower bound is too high (certainty.md §3, "Rates"). In the
simulation, 90.5 % of Wilson's intervals with one to three bad events contained the truth."""
EVENT_DECIMALS = 9
"""Decimals to which the effective number of bad events is rounded before it is compared with ``FEW_EVENTS``. Four of 49
trials are 3.9999999999999996 effective events otherwise."""

FEW_EVENTS_SHARE = 0.05
"""One-sided error probability of the lower bound of a rate with fewer than ``FEW_EVENTS`` bad events (certainty.md §3,
"Rates")."""

NEWTON_STEPS, TERMS = 12, 30
"""Number of Newton steps, and number of terms of the series, in ``gamma_quantile``. They make the result exact to
rounding, because the quantile is at most 1.4."""

TINY_DIVERGENCE = 1e-12
"""KL divergence in nats below which ``slope_variance``/KL is replaced by ``slope_limit``, because the quotient of two
numbers that are almost 0 is rounding noise."""


class Bounds(NamedTuple):
    """Lower and upper confidence bound of n values; arrays of the same shape."""

    lower: Floats
    upper: Floats


class TwoCentred(NamedTuple):
    """Confidence bounds of a quantity that is better the lower it is, and cannot be negative; (n,) each.

    The upper and the lower bound are computed from different centres.
    """

    centre: Floats
    """Centre from which the upper bound is computed, 0 or more."""
    upper: Floats
    """Upper bound."""
    raw: Floats
    """Centre from which the lower bound is computed; may be negative."""
    raw_lower: Floats
    """Lower bound; may be negative."""


def wilson(rate: Floats, n: Floats, level: Level, none: Booleans, every: Booleans) -> Bounds:
    """Compute Wilson bounds of a rate of bad events (Wilson 1927, JASA 22, 209–212).

    For fewer than ``FEW_EVENTS`` events, the lower bound of a Poisson count (Garwood 1936, Biometrika 28, 437–442) is
    used if it is lower than Wilson's.

    :param rate: rate of bad events in [0, 1]; all arrays and both bounds have its shape.
    :param n: effective number of trials: trials over the design effect (Rao and Scott 1992, Biometrics 48, 577–585).
        Where it is 0 the bounds are 0 and 1.
    :param none: whether no trial was a bad event; the lower bound is then exactly 0.
    :param every: whether every trial was a bad event; the upper bound is then exactly 1.
    """
    known: Booleans = n > 0
    trials = np.where(known, n, 1.0)

    def limit(z: float, side: float) -> Floats:
        spread = z * np.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
        return (rate + z * z / (2 * trials) + side * spread) / (1 + z * z / trials)

    lowest = limit(level.z_better, -1.0)
    events = rate * trials
    few = ~none & known & (events > 0) & (np.round(events, EVENT_DECIMALS) < FEW_EVENTS)
    lowest[few] = np.minimum(lowest[few], gamma_quantile(events[few]) / trials[few])
    lower = np.where(none | ~known, 0.0, np.clip(lowest, 0.0, rate))
    upper = np.where(every | ~known, 1.0, np.clip(limit(level.z_worse, 1.0), rate, 1.0))
    return Bounds(lower, upper)


def gamma_quantile(shape: Floats) -> Floats:
    """Compute the quantile ``FEW_EVENTS_SHARE`` of the gamma distribution, by Newton's method on logarithms.

    For the shape x, the distribution function at g is g^x e^−g Σ / Γ(x + 1), with Σ the sum over k ≥ 0 of
    g^k / ((x + 1) … (x + k)). Its logarithm as a function of ln g is concave and has the slope x / Σ, so Newton's
    method always converges.

    :param shape: (n,) shapes x of the distributions, in (0, ``FEW_EVENTS``).
    :returns: (n,) quantiles of gamma distributions with the scale 1.
    """
    log_gamma = np.array([math.lgamma(x + 1) for x in shape.tolist()], dtype=np.float64)
    log_g: Floats = (math.log(FEW_EVENTS_SHARE) + log_gamma) / shape
    for _ in range(NEWTON_STEPS):
        g = np.exp(np.maximum(log_g, -700.0))
        term = np.ones_like(shape)
        total = np.ones_like(shape)
        for k in range(1, TERMS):
            term = term * g / (shape + k)
            total = total + term
        log_share = shape * log_g - g - log_gamma + np.log(total)
        log_g = log_g - (log_share - math.log(FEW_EVENTS_SHARE)) * total / shape
    return np.exp(np.maximum(log_g, -700.0))


def success_rates(judged: Floats, successes: Floats) -> Floats:
    """Return the success rate of each bin, (n, 10), shrunk towards the overall rate (certainty.md §4b, "ece").

    The overall rate o is computed with two added successes and two added failures (Agresti and Coull 1998, The American
    Statistician 52, 119–126). The rate of a bin is computed with its share of these four added trials, and with two
    more added trials that have the rate o.

    :param judged: (n, 10) numbers of judged traces by bin.
    :param successes: (n, 10) numbers of successes among the judged traces, by bin.
    """
    total = np.sum(judged, axis=-1, keepdims=True)
    share = ratio(judged, total)
    overall = (np.sum(successes, axis=-1, keepdims=True) + 2) / (total + 4)
    result: Floats = (successes + 2 * share + 2 * overall) / (judged + 4 * share + 2)
    return result


def calibration_bounds(
    judged: Floats, confidence: Floats, successes: Floats, effect: Floats, level: Level
) -> TwoCentred:
    """Compute confidence bounds of ECE (certainty.md §3, "ece").

    The gap of a bin is assumed to be normally distributed. ECE is the sum of the absolute gaps of all bins. Noise makes
    absolute gaps larger, and the centres of both bounds are corrected for it.

    :param judged: (n, 10) numbers of judged traces by bin.
    :param confidence: (n, 10) sums of the confidence of the judged traces, by bin.
    :param successes: (n, 10) numbers of successes among the judged traces, by bin.
    :param effect: (n,) design effect of calibration.
    :returns: bounds of ECE; 0 where no trace was judged. The bounds are not limited to [0, 1].
    """
    total_or_one = np.maximum(np.sum(judged, axis=-1, keepdims=True), 1.0)
    gap = np.abs(confidence - successes) / total_or_one
    success = success_rates(judged, successes)
    variance = effect[:, None] * judged * success * (1 - success) / total_or_one**2
    sd = np.sqrt(variance)
    folded = np.exp(-(np.minimum(ratio(gap, FOLDING_RANGE * sd, 10.0), 10.0) ** 4))
    centre = np.sum(np.sqrt(np.maximum(gap * gap - variance, 0)), axis=-1)
    raw = np.sum(gap - BETTER_SIDE_OF_GAP * sd * folded, axis=-1)
    return TwoCentred(
        centre=centre,
        upper=centre + level.z_worse * np.sqrt(np.sum(variance, axis=-1)),
        raw=raw,
        raw_lower=raw - level.z_better * np.sqrt(np.sum(variance * (1 - SPREAD_OF_GAP * folded), axis=-1)),
    )


class Divergence(NamedTuple):
    """KL divergences of the three metrics, with their bias and variance; (n, 3) each, 0 where a metric is not
    measurable."""

    measured: Booleans
    kl: Floats
    """KL divergence in nats, with pseudo-counts, as the score uses it."""
    excess: Floats
    """Expected contribution of sampling to KL."""
    null_variance: Floats
    """Variance of KL without drift."""
    slope_variance: Floats
    """Variance that drift adds to KL, including the design effect; about proportional to KL."""
    slope_limit: Floats
    """Limit of ``slope_variance``/KL as KL approaches 0."""


def divergence(recent: Floats, baseline: Floats, effect: Floats, pseudo_count: float, min_sample: int) -> Divergence:
    """Compute KL divergences of the metrics' histograms, with their bias and variance (certainty.md §3, "delta_drift").

    Without drift, 2 n_h · KL is the design effect times a chi-square, where n_h = 1/(1/n_recent + 1/n_baseline) (Rao
    and Scott 1981, JASA 76, 221–230). Its degrees of freedom are the number of used bins less 1. The variance that
    drift adds follows from the derivatives of KL (delta method).

    :param recent: (n, 3, 10) counts in the window.
    :param baseline: (n, 3, 10) counts in the baseline.
    :param effect: (n, 3) design effects of the histograms.
    :param pseudo_count: α of :func:`ciris_scoring.windows.drift.smoothed`.
    :param min_sample: smallest number of values in the window, and in the baseline, of a measurable metric.
    """
    n_recent, n_baseline = np.sum(recent, axis=-1), np.sum(baseline, axis=-1)
    measured: Booleans = np.minimum(n_recent, n_baseline) >= max(min_sample, 1)
    free_bins = np.maximum(np.count_nonzero(recent + baseline, axis=-1) - 1, 0)
    recent = np.where(measured[..., None], recent, 1.0)
    baseline = np.where(measured[..., None], baseline, 1.0)
    n_recent, n_baseline = np.where(measured, n_recent, N_BINS), np.where(measured, n_baseline, N_BINS)
    probabilities = smoothed(recent, baseline, pseudo_count)
    (p, q), quotient = probabilities, probabilities.quotient
    kl = np.maximum(probabilities.kl_divergence, 0)
    harmonic = 1 / (1 / n_recent + 1 / n_baseline)
    log_ratio = np.log(quotient)
    first = np.sum(p * (log_ratio - np.sum(p * log_ratio, axis=-1, keepdims=True)) ** 2, axis=-1) / n_recent
    second = np.sum((p - q) * (quotient - 1), axis=-1) / n_baseline  # this is Σ (p − q)²/q
    numbers = (
        kl,
        free_bins * effect / (2 * harmonic),
        free_bins * (effect / harmonic) ** 2 / 2,
        effect * (first + second),
        effect * 2 / harmonic,
    )
    return Divergence(measured, *(np.where(measured, number, 0.0) for number in numbers))


def drift_bounds(metrics: Divergence, level: Level) -> TwoCentred:
    """Compute confidence bounds of δ_drift from the sum of the metrics' divergences, by inverting a score test.

    The variance of the sum is the variance without drift, plus ``slope`` times the sum. Like Wilson's, the test uses
    the variance at the bound, so the bounds solve a quadratic equation. δ_drift is the mean of 1 − exp(−KL) over the
    metrics, which is less than 1 − exp(−mean KL) if the metrics differ. The bounds use the quotient of these two
    numbers at the centre (certainty.md §3, "delta_drift").

    :param metrics: (n, 3) divergences, from :func:`divergence`.
    :returns: bounds of δ_drift; 0 where no metric is measurable. The bounds are not limited to [0, 1].
    """
    some = np.maximum(np.count_nonzero(metrics.measured, axis=-1), 1.0)
    kl, raw, null_variance, slope_variance, slope_limit = (
        np.sum(values, axis=-1)
        for values in (
            metrics.kl,
            metrics.kl - metrics.excess,
            metrics.null_variance,
            metrics.slope_variance,
            metrics.slope_limit,
        )
    )
    slope = np.divide(slope_variance, kl, out=slope_limit / some, where=kl > TINY_DIVERGENCE)

    def limit(z: float, side: float) -> Floats:
        root = np.sqrt(np.maximum(slope * raw + z * z * slope * slope / 4 + null_variance, 0))
        result: Floats = raw + z * z * slope / 2 + side * z * root
        return result

    corrected = np.maximum(metrics.kl - metrics.excess, 0)
    mean_of_exponentials = np.sum(-np.expm1(-corrected), axis=-1) / some
    exponential_of_mean = -np.expm1(-np.sum(corrected, axis=-1) / some)
    convexity = ratio(mean_of_exponentials, exponential_of_mean, 1.0)

    def delta(total: Floats) -> Floats:
        result: Floats = convexity * -np.expm1(-total / some)
        return result

    centre = np.maximum(raw, 0)
    return TwoCentred(
        centre=delta(centre),
        upper=delta(np.maximum(limit(level.z_worse, 1.0), centre)),
        raw=delta(raw),
        raw_lower=delta(np.minimum(limit(level.z_better, -1.0), raw)),
    )


def recovery_bounds(mttr_hours: Floats, n_episodes: Floats, episode_cv: Floats, level: Level) -> Bounds:
    """Compute confidence bounds of the mean time to recovery.

    Durations of episodes are taken as log-normal with the fleet's coefficient of variation. The distribution of their
    mean is approximated by the log-normal distribution with the same mean and variance (Fenton 1960, IRE Transactions
    on Communications Systems 8, 57–67). The formula is in certainty.md §3, "mttr_hours".

    :param mttr_hours: (n,) mean time to recovery in hours. Without an episode it is 0, and both bounds are 0.
    :param n_episodes: (n,) number of episodes in ``mttr_hours``.
    :param episode_cv: (n,) the fleet's coefficient of variation of episode durations.
    """
    spread = np.sqrt(np.log1p(episode_cv**2 / np.maximum(n_episodes, 1.0)))
    lower = np.minimum(np.exp(spread * spread / 2 - level.z_better * spread), 1.0)
    upper = np.exp(spread * spread / 2 + level.z_worse * spread)
    return Bounds(mttr_hours * lower, mttr_hours * upper)
