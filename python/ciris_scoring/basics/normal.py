"""Distribution function of the standard normal distribution."""

import math

import numpy as np
from numpy.typing import NDArray

_ERFC = np.frompyfunc(math.erfc, 1, 1)


def normal_share(z: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of a standard normal distribution below z."""
    share: NDArray[np.float64] = np.asarray(_ERFC(-np.asarray(z) / math.sqrt(2)), dtype=np.float64) / 2
    return share
