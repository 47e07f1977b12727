"""Distribution function of the standard normal distribution."""

import math


def normal_share(z: float) -> float:
    """Return the share of a standard normal distribution below z."""
    return math.erfc(-z / math.sqrt(2)) / 2
