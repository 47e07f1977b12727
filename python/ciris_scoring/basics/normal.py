"""Distribution function of the standard normal distribution."""

import math

import numpy as np
from numpy.typing import NDArray

ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)
"""Coefficients of erfc for the macro ``normal_share``, with an error of at most 1.2e-7 (Press et al. 2007, Numerical
Recipes, third edition, section 6.2.2). PostgreSQL has erfc from version 16 on only."""

_ERFC = np.frompyfunc(math.erfc, 1, 1)


def normal_share(z: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of a standard normal distribution below z."""
    share: NDArray[np.float64] = np.asarray(_ERFC(-np.asarray(z) / math.sqrt(2)), dtype=np.float64) / 2
    return share
