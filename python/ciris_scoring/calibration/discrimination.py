"""How well scores tell good agents from bad ones: the AUC (Mann-Whitney) and its covariance (DeLong).

Pure functions on numpy arrays, vectorised over spans. The variance is that of DeLong, DeLong and Clarke-Pearson (1988),
with the spans of one agent kept together as in Obuchowski (1997), since they are not independent; where every agent has
one span, that adds nothing.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_NO_VARIANCE = 1e-18


@dataclass(frozen=True)
class Discrimination:
    """The AUC of m versions of a score on the same spans."""

    auc: Floats
    """(m,): the chance that a good span has the higher score than a bad one, ties counting half."""
    covariance: Floats
    """(m, m); NaN where a class has fewer than two agents."""


@dataclass(frozen=True)
class Estimate:
    """A value with the limits of its interval; they are NaN where chance cannot be estimated."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval and 0 is outside."""
        return self.low > 0 or self.high < 0


def discrimination(scores: ArrayLike, is_good: ArrayLike, agents: ArrayLike) -> Discrimination:
    """Compute the AUC of every version of the score, and how they vary together.

    :param scores: (m, n) m versions of the scores of n spans.
    :param is_good: (n,) whether a span is labelled good.
    :param agents: (n,) whose spans they are, as any integers.
    :raises ValueError: a class is empty.
    """
    scores = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    is_good = np.asarray(is_good, dtype=bool)
    good, bad = scores[:, is_good], scores[:, ~is_good]
    if not good.size or not bad.size:
        raise ValueError("the AUC needs a good and a bad span")
    of_good = np.stack([_share_below(*pair) for pair in zip(good, bad, strict=True)])  # (m, good)
    of_bad = 1 - np.stack([_share_below(*pair) for pair in zip(bad, good, strict=True)])  # (m, bad)
    auc = of_good.mean(axis=1)

    names, number = np.unique(np.asarray(agents), return_inverse=True)
    from_good = _sum_by_agent(of_good - auc[:, None], number[is_good], names.size) / good.shape[1]
    from_bad = _sum_by_agent(of_bad - auc[:, None], number[~is_good], names.size) / bad.shape[1]
    n_good, n_bad = np.unique(number[is_good]).size, np.unique(number[~is_good]).size
    if min(n_good, n_bad) < 2:
        return Discrimination(auc, np.full((auc.size, auc.size), np.nan))
    crossed = from_good @ from_bad.T
    covariance = (
        n_good / (n_good - 1) * (from_good @ from_good.T)
        + n_bad / (n_bad - 1) * (from_bad @ from_bad.T)
        + names.size / (names.size - 1) * (crossed + crossed.T)
    )
    return Discrimination(auc, covariance)


def auc_estimate(found: Discrimination, version: int, level: float = 0.95) -> Estimate:
    """Give the AUC of one version with its interval, cut at 0 and 1; where all pairs agree there is none."""
    auc = float(found.auc[version])
    estimate = _estimate(auc, float(found.covariance[version, version]), level, zero_is_certain=False)
    return Estimate(auc, float(np.maximum(estimate.low, 0)), float(np.minimum(estimate.high, 1)))


def difference_estimate(found: Discrimination, version: int, reference: int, level: float = 0.95) -> Estimate:
    """Give the AUC of one version less that of another with the paired interval.

    Where both order every pair alike the difference is 0 without doubt; where they differ on every pair in the same
    way, chance cannot be estimated and there is no interval.
    """
    covariance = found.covariance
    variance = (
        covariance[version, version] + covariance[reference, reference] - 2 * covariance[version, reference]
    )
    difference = float(found.auc[version] - found.auc[reference])
    return _estimate(difference, float(variance), level, zero_is_certain=True)


def _estimate(value: float, variance: float, level: float, *, zero_is_certain: bool) -> Estimate:
    if not variance > _NO_VARIANCE:  # NaN too
        if zero_is_certain and abs(value) < 1e-12 and not np.isnan(variance):
            return Estimate(0.0, 0.0, 0.0)
        return Estimate(value, np.nan, np.nan)
    half = NormalDist().inv_cdf((1 + level) / 2) * variance**0.5
    return Estimate(value, value - half, value + half)


def _share_below(values: Floats, others: Floats) -> Floats:
    """Share of the others below each value, ties counting half: (values,)."""
    others = np.sort(others)
    below = np.searchsorted(others, values, side="left") + np.searchsorted(others, values, side="right")
    share: Floats = below / (2 * others.size)
    return share


def _sum_by_agent(values: Floats, agents: NDArray[np.int64], n_agents: int) -> Floats:
    """Sums over the spans of each agent: (m, spans) to (m, agents)."""
    return np.stack([np.bincount(agents, weights=row, minlength=n_agents) for row in values])
