"""Limits of single components, in closed form, at any level.

"Lower" and "upper" are limits of the component's badness: the rate of bad events, ECE, drift, hours to recovery. The
lower one is the side of a better score and uses ``z_better``, the upper one that of a worse score and ``z_worse``.
Limits hold the centre between them; that they hold the published value too is seen to where they are combined.
"""

import math
from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.design_effects import HistogramEffect
from ciris_scoring.statistics.inputs import Booleans, Floats, Level
from ciris_scoring.statistics.residuals import ratio
from ciris_scoring.statistics.resilience import N_BINS, smoothed

BETTER_SIDE_OF_GAP = 0.846
"""Mean of |x| − |μ| at μ = 0 in units of the standard deviation, with a margin: 0.798 is that of the normal."""

SPREAD_OF_GAP = 0.516
"""How much of a gap's variance goes away when the gap is folded at 0."""

FOLDING_RANGE = 2.5
"""Standard deviations from 0 up to which a gap counts as folded."""

FEW_EVENTS = 4.0
"""Effective bad events below which Wilson's lower limit is too high."""

FEW_EVENTS_SHARE = 0.05
"""Of the gamma distribution, below the lower limit of few events."""

NEWTON_STEPS = 12
TERMS = 30
"""Of the series of the gamma distribution, which is summed up to 1.4 at most."""

TINY_DIVERGENCE = 1e-12
"""Nats below which the ratio of the variance of KL to KL is taken at its limit, 2/n."""


class Limits(NamedTuple):
    """Limits of n values; arrays of one shape."""

    lower: Floats
    upper: Floats


class TwoCentred(NamedTuple):
    """Limits whose two sides have centres of their own, because the estimate is folded at 0; (n,) each."""

    centre: Floats
    """Centre of the worse side, 0 or more."""
    upper: Floats
    raw: Floats
    """Centre of the better side, not truncated at 0."""
    raw_lower: Floats
    """Limit of the better side, not truncated at 0."""


def wilson(rate: Floats, n: Floats, level: Level, none: Booleans, every: Booleans) -> Limits:
    """Wilson limits of a rate of bad events; of few events the lower one is that of a Poisson number, if that is lower.

    :param rate: in [0, 1].
    :param n: effective number of trials, positive where the limits are of use; elsewhere they are 0 and 1.
    :param none: where no event was seen: the lower limit is exactly 0.
    :param every: where nothing but events was seen: the upper limit is exactly 1.
    """
    known: Booleans = n > 0
    trials = np.where(known, n, 1.0)

    def limit(z: float, side: float) -> Floats:
        spread = z * np.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
        result: Floats = (rate + z * z / (2 * trials) + side * spread) / (1 + z * z / trials)
        return result

    lowest = limit(level.z_better, -1.0)
    events = rate * trials
    few = ~none & known & (events > 0) & (events < FEW_EVENTS)
    lowest[few] = np.minimum(lowest[few], gamma_quantile(events[few]) / trials[few])
    lower = np.where(none | ~known, 0.0, np.clip(lowest, 0.0, rate))
    upper = np.where(every | ~known, 1.0, np.clip(limit(level.z_worse, 1.0), rate, 1.0))
    return Limits(lower, upper)


def gamma_quantile(shape: Floats) -> Floats:
    """Quantile ``FEW_EVENTS_SHARE`` of the gamma distribution, by Newton's method on logarithms.

    The distribution at g is g^x e^−g Σ g^k / ((x + 1) … (x + k)) / Γ(x + 1). Its logarithm as a function of ln g is
    concave and has the slope x / Σ, so that Newton's method cannot miss.

    :param shape: (n,) x, in (0, ``FEW_EVENTS``).
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


def calibration_limits(
    judged: Floats, confidence: Floats, successes: Floats, effect: Floats, level: Level
) -> TwoCentred:
    """Limits of ECE. Bins' gaps are normal, and ECE is the sum of their sizes, which noise makes larger.

    :param judged: (n, 10) judged traces by bin; ``confidence`` their sums of confidence, ``successes`` their successes.
    :param effect: (n,) design effect.
    :returns: 0 everywhere where nothing was judged.
    """
    total = np.sum(judged, axis=-1, keepdims=True)
    total_or_one = np.maximum(total, 1.0)
    gap = np.abs(confidence - successes) / total_or_one
    share = judged / total_or_one
    overall = (np.sum(successes, axis=-1, keepdims=True) + 2) / (total + 4)
    success = (successes + 2 * share + 2 * overall) / (judged + 4 * share + 2)
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
    """The metrics' divergences and what their sampling adds, (n, 3) each; all 0 where a metric is not measurable."""

    measured: Booleans
    kl: Floats
    """As the score has it, with pseudo-counts, in nats."""
    excess: Floats
    """What sampling adds to it: t1/(2 n_h)."""
    null_variance: Floats
    """Variance of KL where there is no drift."""
    slope_variance: Floats
    """(t2/t1) times the variance that drift adds; about proportional to KL."""
    slope_limit: Floats
    """What ``slope_variance``/KL tends to for small KL."""


def divergence(
    recent: Floats, baseline: Floats, effect: HistogramEffect, pseudo_count: float, min_sample: int
) -> Divergence:
    """Divergences of the metrics' histograms with their moments.

    :param recent: (n, 3, 10) counts in the window; ``baseline`` likewise.
    """
    n_recent, n_baseline = np.sum(recent, axis=-1), np.sum(baseline, axis=-1)
    measured: Booleans = np.minimum(n_recent, n_baseline) >= max(min_sample, 1)
    recent = np.where(measured[..., None], recent, 1.0)
    baseline = np.where(measured[..., None], baseline, 1.0)
    n_recent, n_baseline = np.where(measured, n_recent, N_BINS), np.where(measured, n_baseline, N_BINS)
    probabilities = smoothed(recent, baseline, pseudo_count)
    (p, q), quotient = probabilities, probabilities.quotient
    kl = np.maximum(probabilities.kl_divergence, 0)
    harmonic = 1 / (1 / n_recent + 1 / n_baseline)
    log_ratio = np.log(quotient)
    first = np.sum(p * (log_ratio - np.sum(p * log_ratio, axis=-1, keepdims=True)) ** 2, axis=-1) / n_recent
    second = np.sum((p - q) * (quotient - 1), axis=-1) / n_baseline  # Σ (p − q)²/q
    mean_effect = ratio(effect.t2, effect.t1, effect.effect)
    numbers = (
        kl,
        effect.t1 / (2 * harmonic),
        effect.t2 / (2 * harmonic * harmonic),
        mean_effect * (first + second),
        mean_effect * 2 / harmonic,
    )
    return Divergence(measured, *(np.where(measured, number, 0.0) for number in numbers))


def drift_limits(metrics: Divergence, level: Level) -> TwoCentred:
    """Limits of δ_drift: of the sum of the metrics' divergences, as a multiple of chi-square, inverted (score type).

    The variance of the sum is taken as ``null + 4F · sum``, so that the limits solve a quadratic equation. δ averages
    1 − exp(−KL) over metrics, which is less than 1 − exp(−mean KL) when the metrics differ; that ratio is taken at
    the centre.

    :returns: 0 everywhere where no metric is measurable.
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
    slope = np.divide(slope_variance, kl, out=slope_limit / some, where=kl > TINY_DIVERGENCE)  # 4F

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


def recovery_limits(mttr_hours: Floats, n_episodes: Floats, episode_cv: Floats, level: Level) -> Limits:
    """Limits of MTTR: the mean of n episodes as log-normal, with the fleet's coefficient of variation.

    :param mttr_hours: (n,) 0 where there is no episode; the limits are then 0 too.
    """
    spread = np.sqrt(np.log1p(episode_cv**2 / np.maximum(n_episodes, 1.0)))
    lower = np.minimum(np.exp(spread * spread / 2 - level.z_better * spread), 1.0)
    upper = np.exp(spread * spread / 2 + level.z_worse * spread)
    return Limits(mttr_hours * lower, mttr_hours * upper)
