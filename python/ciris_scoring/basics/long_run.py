"""Constants and a function of the steady score that statistics, readers and SQL share (certainty.md §4b)."""

import math

NORMAL_TO_95 = 1.96
"""Standard deviations from the middle of a normal distribution to the ends of its 95 % interval."""
LEAST_LOSS = 1e-9
"""Value to which smaller losses beyond the fixed cost are raised, so that their logarithms are finite."""


def normal_share(z: float) -> float:
    """Return the share of a standard normal distribution below z."""
    return math.erfc(-z / math.sqrt(2)) / 2
