"""Types of arrays, and operations on arrays that several modules need."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]
"""Arrays (n, ...) by the names of their columns."""


def ratio(numerator: Floats | Integers, denominator: Floats | Integers, otherwise: Floats | float = 0.0) -> Floats:
    """Return numerator / denominator, broadcast; ``otherwise`` where the denominator is not above 0, or is NaN."""
    shape = np.broadcast(numerator, denominator).shape
    result = np.array(np.broadcast_to(otherwise, shape), dtype=np.float64)
    return np.divide(numerator, denominator, out=result, where=denominator > 0)


def running_total(per_period: Integers) -> Integers:
    """Return running totals, (agents, periods + 1, ...). Element t is the sum over the periods before t.

    :param per_period: (agents, periods, ...) counts.
    """
    agents, periods, *inner = per_period.shape
    total = np.zeros((agents, periods + 1, *inner), dtype=np.int64)
    np.cumsum(per_period, axis=1, out=total[:, 1:])
    return total


def between(total: Integers, agent: Integers, start: Integers, end: Integers) -> Integers:
    """Return sums over the periods [start, end); periods before 0 are empty.

    :param total: running totals (agents, periods + 1, ...).
    :param agent: indices of agents, broadcast with ``start`` and ``end`` to the shape of the result.
    :param start: first periods, which may be negative.
    :param end: ends, which may be negative.
    """
    return total[agent, np.maximum(end, 0)] - total[agent, np.maximum(start, 0)]
