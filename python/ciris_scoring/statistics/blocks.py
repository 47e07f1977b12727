"""Division of the run's as-ofs into blocks.

A *fleet* is all agents with a row at an as-of and window. A fleet is computed together, because the confidence bounds
of each agent depend on the whole fleet. A *block* is a range of as-ofs whose fleets are computed together. Blocks are
limited, so that arrays of periods do not grow with the history.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from psycopg import sql

from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.setting import Setting

BLOCK_PERIODS = 4_000
"""Largest number of periods between the first and the last as-of of a block, not counting the lookback horizon. It
bounds the memory of the arrays; it does not change a result."""


class Block(NamedTuple):
    """A range of as-ofs, both ends included, and the arrays of periods that its rows depend on."""

    first: datetime
    last: datetime
    origin: datetime
    """Start of the arrays' first period."""

    def n_periods(self, setting: Setting) -> int:
        """Return the number of periods in the arrays."""
        return (self.last - self.origin) // setting.period

    def first_as_of(self, setting: Setting) -> int:
        """Return the first as-of, as the number of array periods before it."""
        return (self.first - self.origin) // setting.period


def blocks(
    session: Session, agent_periods: sql.SQL, setting: Setting, block_periods: int = BLOCK_PERIODS
) -> Iterator[Block]:
    """Divide the as-ofs of the run into blocks.

    A block ends where no window contains a trace, or where it reaches ``block_periods``.

    :param agent_periods: relation of ``int_agent_periods``.
    :param block_periods: largest number of as-ofs in a block.
    """
    cutoff = setting.cutoff
    longest = max(window.window_days for window in setting.windows) * setting.periods_per_day * setting.period
    since = None if cutoff is None else cutoff - longest
    traced = session.rows(
        sql.SQL("""
        select distinct period_start from {periods}
        where period_start < %(until)s and (%(since)s::timestamptz is null or period_start >= %(since)s)
        order by period_start
        """).format(periods=agent_periods),
        {"until": setting.as_of, "since": since},
    )
    first = last = None
    for (period_start,) in traced:
        begin, end = period_start + setting.period, min(period_start + longest, setting.as_of)
        if cutoff is not None:
            begin = max(begin, cutoff + setting.period)
        if begin > end:
            continue
        if first is not None and last is not None and begin > last + setting.period:
            yield from _cut(first, last, setting, block_periods)
            first = None
        first, last = first or begin, end
    if first is not None and last is not None:
        yield from _cut(first, last, setting, block_periods)


def _cut(first: datetime, last: datetime, setting: Setting, block_periods: int) -> Iterator[Block]:
    """Yield blocks of consecutive as-ofs, none of them longer than ``block_periods``."""
    while first <= last:
        end = min(last, first + (block_periods - 1) * setting.period)
        yield Block(first, end, first - setting.longest_horizon)
        first = end + setting.period
