"""Estimate the present value of a rate, a frequency or a mean that may have changed at an unknown time (certainty.md
§4b).

The days before an as-of are divided at the starts of nested windows. Behaviour is constant between changes, which come
with a small probability per day. The marginal likelihood of the data of a span of days, called evidence, has a closed
form. A recursion over the spans gives the probability of each start of the present behaviour (Fearnhead and Liu 2007,
Journal of the Royal Statistical Society B 69, 589–605; Barry and Hartigan 1992, Annals of Statistics 20, 260–279). An
estimate depends only on sums over the windows: (n, windows, ...), the shortest first, ``windows`` days long.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Floats

CHANGE_PER_DAY = 1 / 600
"""Probability per day that a quantity changes. A simulated agent changes 1.5 times a year, each time in 40 % of its
properties, so each property changes once in 608 days (``benchmarks/coverage/year.py``)."""
YOUNG_DAYS = 14
"""Number of days before the as-of in which a change of behaviour counts as recent (certainty.md §4b)."""
HALF_LOG_TAU = math.log(math.tau) / 2
"""½ ln 2π, the constant of Stirling's series."""


class PresentValue(NamedTuple):
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


def rates(bad: Floats, trials: Floats, events: float, mean: float, windows: tuple[int, ...]) -> PresentValue:
    """Estimate rates from numbers of bad events and of trials, divided by the design effect, with a beta prior that has
    the weight of a number of ``events`` and a mean."""
    a, b = events, events / mean - events
    prior = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    def evidence(y: Floats, n: Floats) -> Floats:
        return log_gamma(a + y) + log_gamma(b + n - y) - log_gamma(a + b + n) - prior

    total = a + b + trials
    value = (a + bad) / total
    return _estimate(value, value * (1 - value) / (total + 1), evidence, (bad, trials), windows)


def frequencies(events: Floats, days: Floats, weight: float, mean: float, windows: tuple[int, ...]) -> PresentValue:
    """Estimate events per day from numbers of events and of observed days, with a gamma prior that has the weight of a
    number of events and a mean in events per day."""
    a, b = weight, weight / mean
    prior = a * math.log(b) - math.lgamma(a)

    def evidence(k: Floats, observed: Floats) -> Floats:
        return log_gamma(a + k) - (a + k) * np.log(b + observed) + prior

    value = (a + events) / (b + days)
    return _estimate(value, value / (b + days), evidence, (events, days), windows)


def means(precision: Floats, weighted: Floats, mean: float, variance: float, windows: tuple[int, ...]) -> PresentValue:
    """Estimate means of normal values from sums of inverse variances, and of values times inverse variances, with a
    normal prior. The values along a third axis change at the same times."""
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
) -> PresentValue:
    """Average the estimates of the nested windows, each of which assumes that no change happened within it. The weight
    of a window is the probability that the present behaviour began at its start.

    :param evidence: function that returns the log evidence of a span of days from its two ``sums``.
    """
    bounds = (0, *windows)
    starts, ends = np.triu_indices(len(bounds), 1)
    spans = [np.concatenate([np.zeros_like(one[:, :1]), one], axis=1) for one in sums]
    found = evidence(*(one[:, ends] - one[:, starts] for one in spans))
    of_span = {(int(i), int(j)): found[:, k] for k, (i, j) in enumerate(zip(starts, ends, strict=True))}
    weights = _weights(of_span, bounds)
    spread = weights.reshape(*weights.shape, *(1,) * (value.ndim - weights.ndim))
    mean = np.sum(spread * value, axis=1)
    recent = np.sum(weights[:, : sum(window <= YOUNG_DAYS for window in windows)], axis=1)
    return PresentValue(mean, np.sum(spread * (variance + (value - mean[:, None]) ** 2), axis=1), recent)


def _weights(of_span: dict[tuple[int, int], Floats], bounds: tuple[int, ...]) -> Floats:
    """Return the probability that the present behaviour began at the start of each nested window, (n, windows, ...). A
    change between the starts of two windows counts as a change at the older start, and one before the longest window as
    a change at its start.

    :param of_span: log evidence of the days between two bounds, by their positions in ``bounds``, which are the as-of
        and the starts of the windows, in days before the as-of.
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
        older[i] = np.logaddexp.reduce(from_start(i), axis=1)
    options = from_start(0)
    return np.exp(options - np.logaddexp.reduce(options, axis=1, keepdims=True))
