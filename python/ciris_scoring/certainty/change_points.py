"""Estimate the present value of a rate, a frequency or a mean that may have changed at an unknown time (certainty.md
§4b).

The days before an as-of are divided at the starts of nested windows. The model assumes that behaviour is constant
between changes, and that a change happens with a small probability per day. The marginal likelihood of the data of each
span of days, called evidence, has a closed form. A recursion over the spans gives the probability of each start of the
present behaviour (Fearnhead and Liu 2007, Journal of the Royal Statistical Society B 69, 589–605; product partition
model of Barry and Hartigan 1992, Annals of Statistics 20, 260–279). An estimate depends only on sums over the nested
windows.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Floats

CHANGE_PER_DAY = 1 / 600
"""Probability per day that a quantity changes. A simulated agent changes 1.5 times a
year, each time in 40 % of its properties, so each property changes once in 608 days (``benchmarks/coverage/year.py``).
"""

YOUNG_DAYS = 14
"""Number of days before the as-of in which a change of behaviour counts as recent (certainty.md §4b)."""

HALF_LOG_TAU = math.log(math.tau) / 2
"""½ ln 2π, the constant of Stirling's series."""


class Estimate(NamedTuple):
    """Estimated present values of n quantities, or of n sets of quantities; (n, ...) each."""

    mean: Floats
    variance: Floats
    recent: Floats
    """Probability that the quantity changed in the last ``YOUNG_DAYS`` days. Quantities that change together share one
    probability."""


def log_gamma(x: Floats) -> Floats:
    """Compute ln Γ(x) of each x > 0 to 12 digits by Stirling's series at x + 7 (Abramowitz and Stegun 1964, 6.1.41)."""
    z = x + 7.0
    i = 1 / z
    square = i * i
    series = i * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    product = x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) * (x + 6)
    return (z - 0.5) * np.log(z) - z + HALF_LOG_TAU + series - np.log(product)


def rates(bad: Floats, trials: Floats, events: float, mean: float, windows: tuple[int, ...]) -> Estimate:
    """Estimate rates with a beta prior (certainty.md §4b).

    :param bad: (n, windows, ...) numbers of bad events in the nested windows, shortest window first, divided by the
        design effect.
    :param trials: (n, windows, ...) numbers of trials in the nested windows, divided by the design effect.
    :param events: weight of the prior, as a number of events.
    :param mean: mean of the prior.
    :param windows: lengths of the nested windows in days.
    """
    a, b = events, events / mean - events
    prior = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    def evidence(y: Floats, n: Floats) -> Floats:
        return log_gamma(a + y) + log_gamma(b + n - y) - log_gamma(a + b + n) - prior

    total = a + b + trials
    value = (a + bad) / total
    return _estimate(value, value * (1 - value) / (total + 1), evidence, (bad, trials), windows)


def frequencies(events: Floats, days: Floats, weight: float, mean: float, windows: tuple[int, ...]) -> Estimate:
    """Estimate events per day with a gamma prior (certainty.md §4b).

    :param events: (n, windows) numbers of events in the nested windows, shortest window first.
    :param days: (n, windows) numbers of observed days in the nested windows.
    :param weight: weight of the prior, as a number of events.
    :param mean: mean of the prior, in events per day.
    :param windows: lengths of the nested windows in days.
    """
    a, b = weight, weight / mean
    prior = a * math.log(b) - math.lgamma(a)

    def evidence(k: Floats, observed: Floats) -> Floats:
        return log_gamma(a + k) - (a + k) * np.log(b + observed) + prior

    value = (a + events) / (b + days)
    return _estimate(value, value / (b + days), evidence, (events, days), windows)


def means(precision: Floats, weighted: Floats, mean: float, variance: float, windows: tuple[int, ...]) -> Estimate:
    """Estimate means of normal values with a normal prior (certainty.md §4b). The values along a third axis change at
    the same times.

    :param precision: (n, windows[, values]) sums over each nested window of inverse variances, shortest window first.
    :param weighted: (n, windows[, values]) sums over each nested window of values times inverse variances.
    :param mean: mean of the prior.
    :param variance: variance of the prior.
    :param windows: lengths of the nested windows in days.
    """
    a, b = 1 / variance, mean / variance

    def evidence(p: Floats, h: Floats) -> Floats:
        found: Floats = ((b + h) ** 2 / (a + p) - b * b / a - np.log1p(p / a)) / 2
        return found if found.ndim == 2 else np.sum(found, axis=-1)

    total = a + precision
    return _estimate((b + weighted) / total, 1 / total, evidence, (precision, weighted), windows)


def _estimate(
    value: Floats,
    variance: Floats,
    evidence: Callable[[Floats, Floats], Floats],
    sums: tuple[Floats, Floats],
    windows: tuple[int, ...],
) -> Estimate:
    """Average the estimates of the nested windows. The weight of a window is the probability that the present behaviour
    began at its start.

    :param value: (n, windows, ...) estimate from each window, which assumes that no change happened within it.
    :param evidence: function that returns the log evidence of a span of days from its two sums.
    :param sums: the two arguments of ``evidence``, as sums over each nested window.
    """
    bounds = (0, *windows)
    starts, ends = np.triu_indices(len(bounds), 1)
    spans = [np.concatenate([np.zeros_like(one[:, :1]), one], axis=1) for one in sums]
    found = evidence(*(one[:, ends] - one[:, starts] for one in spans))
    of_span = {(int(i), int(j)): found[:, k] for k, (i, j) in enumerate(zip(starts, ends, strict=True))}
    weights = _weights(of_span, bounds)
    n_recent = sum(window <= YOUNG_DAYS for window in windows)

    def mixed(values: Floats) -> Floats:
        shape = weights.shape + (1,) * (values.ndim - weights.ndim)
        result: Floats = np.sum(weights.reshape(shape) * values, axis=1)
        return result

    mean = mixed(value)
    return Estimate(
        mean,
        mixed(variance + (value - np.expand_dims(mean, 1)) ** 2),
        np.sum(weights[:, :n_recent], axis=1),
    )


def _weights(of_span: dict[tuple[int, int], Floats], bounds: tuple[int, ...]) -> Floats:
    """Return the probability that the present behaviour began at the start of each nested window, (n, windows, ...).

    A change between the starts of two windows counts as a change at the older start. Behaviour that began before the
    longest window counts as begun at the start of this window.

    :param of_span: log evidence of the days between two bounds, by the positions of the bounds.
    :param bounds: the as-of and the starts of the windows, in days before the as-of.
    """
    last = len(bounds) - 1
    stays = math.log1p(-CHANGE_PER_DAY)
    older: dict[int, Floats | float] = {last: 0.0}

    def from_start(i: int) -> Floats:
        """Return the log likelihood of all days before ``bounds[i]``, for each possible start of the behaviour on the
        last of these days, (n, starts, ...)."""
        found = []
        for j in range(i + 1, last + 1):
            step = stays * (bounds[j] - bounds[j - 1])
            changed = step if j == last else math.log(-math.expm1(step))
            found.append(stays * (bounds[j - 1] - bounds[i]) + changed + of_span[i, j] + older[j])
        return np.stack(found, axis=1)

    for i in range(last - 1, 0, -1):
        options = from_start(i)
        most = options.max(axis=1)
        older[i] = most + np.log(np.sum(np.exp(options - most[:, None]), axis=1))
    options = from_start(0)
    weights = np.exp(options - options.max(axis=1, keepdims=True))
    result: Floats = weights / weights.sum(axis=1, keepdims=True)
    return result
