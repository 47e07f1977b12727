"""Windows over periods: exact running totals for counts, and short sums in a fixed order for everything else.

A window of counts is the difference of two running totals. Integers lose nothing in it, so a row's result is the
same to the bit wherever the arrays begin. Sums of real numbers would lose digits, and would depend on where the total
began; they are added up afresh per window, by doubling, in about log2(length) additions for all as-ofs together.
"""

import numpy as np

from ciris_scoring.statistics.inputs import Floats, Integers


def day_sums(per_period: Integers, periods_per_day: int) -> Integers:
    """Sums over the 24 hours that end at each period end.

    With hourly periods days are cut backwards from the as-of, so that a window always holds whole days.

    :param per_period: (agents, periods, ...) counts.
    :returns: (agents, periods + 1, ...); element t is the day before period end t, cut off at the arrays' beginning.
    """
    agents, periods, *inner = per_period.shape
    totals = np.zeros((agents, periods + 1, *inner), dtype=np.int64)
    np.cumsum(per_period, axis=1, out=totals[:, 1:])
    days = totals.copy()
    days[:, periods_per_day:] -= totals[:, :-periods_per_day]
    return days


def running_totals(per_day: Integers, periods_per_day: int) -> Integers:
    """Running totals, day by day, of quantities of days.

    :param per_day: (agents, periods + 1, q), as from :func:`day_sums`; element 0 is 0.
    :returns: the same shape; element t is the sum over the days that end at t, t less a day, and so on.
    """
    agents, ends, width = per_day.shape
    days = -(-ends // periods_per_day)
    padded = np.zeros((agents, days * periods_per_day, width), dtype=np.int64)
    padded[:, :ends] = per_day
    by_day = padded.reshape(agents, days, periods_per_day, width)
    np.cumsum(by_day, axis=1, out=by_day)
    return padded[:, :ends]


def decayed_sum(per_period: Floats, length: int, keep: float = 1.0) -> Floats:
    """Sums over the last ``length`` periods, each weighing ``keep`` times the one after it.

    :param per_period: (agents, periods, ...) numbers.
    :param keep: share of the weight that is left after a period; 1 for a plain sum.
    :returns: (agents, periods + 1, ...); element t covers the periods [t − length, t) and depends on nothing else.
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
