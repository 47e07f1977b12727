"""Distribution of the steady score, for the Python model and for thresholds of readers (certainty.md §4b)."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

NORMAL_TO_95 = 1.96
"""Distance from the steady score to the ends of its 95 % interval, in units of ``log_sd``."""
LEAST_LOSS = 1e-9
"""Value to which smaller losses beyond the fixed cost are raised, so that their logarithms are finite."""

MEDIAN, SCALE = -0.05, 0.6
"""Median and scale of the distribution of the logarithm of the loss, in units of ``log_sd``. The distribution is
Student's, with four degrees of freedom. Both numbers were chosen by simulation (docs/measuring.md, "Probabilities")."""


def shares_below(z: ArrayLike) -> NDArray[np.float64]:
    """Return the probability that the logarithm of the loss is less than z times ``log_sd`` above that of the steady
    score."""
    t = (np.asarray(z) - MEDIAN) / SCALE
    a = t / np.sqrt(1 + t * t / 4)
    result: NDArray[np.float64] = 0.5 + 0.375 * a * (1 - a * a / 12)
    return result


def quantile(probability: float) -> float:
    """Return the z at which :func:`shares_below` is the probability, which is in (0, 1)."""
    root = math.sqrt(4 * probability * (1 - probability))
    t = 2 * math.sqrt(max(math.cos(math.acos(root) / 3) / root - 1, 0))
    return MEDIAN + math.copysign(SCALE * t, probability - 0.5)


def log_loss(score: ArrayLike, fixed_loss: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithm of the loss of scores above 0 beyond the fixed cost."""
    beyond: NDArray[np.float64] = np.maximum(-np.log(score) - np.asarray(fixed_loss), LEAST_LOSS)
    return np.log(beyond)


def probability_reached(
    threshold: float, score: ArrayLike, log_sd: ArrayLike, fixed_loss: ArrayLike
) -> NDArray[np.float64]:
    """Return the probability that steady scores reach a threshold; NaN where the score is NaN.

    :param log_sd: standard deviation of the logarithm of the loss beyond the fixed cost; 0 without a signal.
    :param fixed_loss: loss that no agent avoids, −ln of the highest possible R.
    """
    score, log_sd, fixed_loss = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (score, log_sd, fixed_loss)))
    if threshold <= 0:
        certain = np.ones(score.shape)
    else:
        certain = ((score >= threshold) & (threshold < np.exp(-fixed_loss))).astype(np.float64)
    spread = (log_sd > 0) & (threshold > 0) & (threshold < np.exp(-fixed_loss))
    at = log_loss(threshold if threshold > 0 else 1.0, fixed_loss)
    of_score = log_loss(np.where(spread, score, 1.0), fixed_loss)
    z = np.divide(at - of_score, log_sd, out=np.zeros(score.shape), where=spread)
    return np.where(np.isnan(score), np.nan, np.where(spread, shares_below(z), certain))
