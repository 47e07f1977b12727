"""Sums over windows of periods.

A sum of counts is the difference of two running totals. Integers are exact, so a row's result does not depend on where
the arrays begin. Running totals of real numbers would lose digits. Sums of real numbers are therefore computed for each
window separately, by doubling: about log2(length) additions of whole arrays.
"""

import numpy as np

from ciris_scoring.windows.inputs import Floats, Integers


def day_sums(per_period: Integers, periods_per_day: int) -> Integers:
    """Compute sums over the 24 hours that end at each period end.

    Days are counted backwards from the as-of, so a window always contains whole days, also with hourly periods.

    :param per_period: (agents, periods, ...) counts.
    :param periods_per_day: 1 or 24.
    :returns: (agents, periods + 1, ...); element t is the sum over the day that ends at period end t. Periods before
        the arrays count as empty.
    """
    agents, periods, *inner = per_period.shape
    totals = np.zeros((agents, periods + 1, *inner), dtype=np.int64)
    if periods_per_day == 1:
        totals[:, 1:] = per_period
        return totals
    np.cumsum(per_period, axis=1, out=totals[:, 1:])
    days = totals.copy()
    days[:, periods_per_day:] -= totals[:, :-periods_per_day]
    return days


def running_totals(per_day: Integers, periods_per_day: int) -> Integers:
    """Compute running totals of daily quantities, in steps of a day.

    :param per_day: (agents, periods + 1, q) daily quantities, such as the results of :func:`day_sums`.
    :param periods_per_day: 1 or 24.
    :returns: the same shape; element t is the sum over the days that end at t, t − 1 day, t − 2 days, and so on.
    """
    agents, ends, width = per_day.shape
    days = -(-ends // periods_per_day)
    padded = np.zeros((agents, days * periods_per_day, width), dtype=np.int64)
    padded[:, :ends] = per_day
    by_day = padded.reshape(agents, days, periods_per_day, width)
    np.cumsum(by_day, axis=1, out=by_day)
    return padded[:, :ends]


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
    :param end: ends, 0 or more.
    """
    return total[agent, end] - total[agent, np.maximum(start, 0)]


def decayed_sum(per_period: Floats, length: int, keep: float = 1.0) -> Floats:
    """Compute sums over the last ``length`` periods, with weights that decay by age.

    :param per_period: (agents, periods, ...) numbers.
    :param length: number of periods.
    :param keep: factor by which the weight of a period falls with each later period; 1 for a plain sum. The newest
        period has the weight 1.
    :returns: (agents, periods + 1, ...); element t depends on the periods [t − length, t) only.
    """
    agents, periods, *inner = per_period.shape
    result = np.zeros((agents, periods + 1, *inner))
    block = np.array(per_period, dtype=np.float64)
    size, covered, remaining = 1, 0, length
    while remaining:
        if remaining & 1:
            result[:, 1 + covered :] += keep**covered * block[:, : max(periods - covered, 0)]
            covered += size
        remaining >>= 1
        if remaining:
            older = block[:, : max(periods - size, 0)].copy()
            block[:, size:] += keep**size * older
            size *= 2
    return result
