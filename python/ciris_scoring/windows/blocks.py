"""Division of the run's as-ofs into blocks.

A *fleet* is all agents with a row at an as-of and window. A fleet is computed together, because the confidence bounds
of each agent depend on the whole fleet. A *block* is a range of as-ofs whose fleets are computed in the same arrays.
The length of blocks is limited, so that arrays do not grow with the history.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from psycopg import sql

from ciris_scoring.windows.session import Session
from ciris_scoring.windows.setting import Setting

BLOCK_PERIODS = 4_000
"""Largest number of as-ofs in a block. It limits the memory of the arrays and does not change a result."""


class Block(NamedTuple):
    """A range of as-ofs, both ends included, and the start of the periods that the scores of these as-ofs depend on."""

    first: datetime
    last: datetime
    origin: datetime
    """Start of the first period in the arrays of the block."""

    def n_periods(self, setting: Setting) -> int:
        """Return the number of periods in the arrays of the block."""
        return (self.last - self.origin) // setting.period

    def first_as_of(self, setting: Setting) -> int:
        """Return the number of periods in the arrays of the block before its first as-of."""
        return (self.first - self.origin) // setting.period


def blocks(
    session: Session, agent_periods: sql.SQL, setting: Setting, block_periods: int = BLOCK_PERIODS
) -> Iterator[Block]:
    """Divide the as-ofs of the run into blocks.

    A block ends before an as-of at which no window contains a trace, or when it has ``block_periods`` as-ofs.

    :param agent_periods: relation of ``int_agent_periods``.
    :param block_periods: largest number of as-ofs in a block.
    """
    cutoff, period = setting.cutoff, setting.period
    since = None if cutoff is None else cutoff - setting.longest_window
    traced = session.rows(
        sql.SQL("""
        select distinct period_start from {periods}
        where period_start < %(until)s and (%(since)s::timestamptz is null or period_start >= %(since)s)
        order by period_start
        """).format(periods=agent_periods),
        {"until": setting.as_of, "since": since},
    )
    ranges: list[tuple[datetime, datetime]] = []
    for (period_start,) in traced:
        first = max(period_start, cutoff or period_start) + period
        last = min(period_start + setting.longest_window, setting.as_of)
        if ranges and first <= ranges[-1][1] + period:
            first, _ = ranges.pop()
        if first <= last:
            ranges.append((first, last))
    for first, last in ranges:
        while first <= last:
            end = min(last, first + (block_periods - 1) * period)
            yield Block(first, end, first - setting.longest_horizon)
            first = end + period
