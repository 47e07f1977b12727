"""Blocks of as-ofs, which are computed together.

A *fleet* is all agents with a row at an as-of and window. They are computed together, because the confidence bounds of
each depend on the whole fleet. A *block* is the fleets of as-ofs that lie close together, so that arrays of periods do
not grow with the history.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from psycopg import sql

from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.setting import Setting

BLOCK_PERIODS = 4_000
"""Periods between the first and the last as-of of a block, at most; the lookback horizon comes on top."""


class Block(NamedTuple):
    """As-ofs from the first to the last, and the arrays of periods that hold what their rows depend on."""

    first: datetime
    last: datetime
    origin: datetime
    """Start of the arrays' first period."""

    def n_periods(self, setting: Setting) -> int:
        """Length of the arrays."""
        return (self.last - self.origin) // setting.period

    def first_as_of(self, setting: Setting) -> int:
        """The first as-of, as the number of periods before it in the arrays."""
        return (self.first - self.origin) // setting.period


def blocks(
    session: Session, agent_periods: sql.SQL, setting: Setting, block_periods: int = BLOCK_PERIODS
) -> Iterator[Block]:
    """Cut the as-ofs of the run into blocks, where a window holds no trace, and where a block gets too long.

    :param agent_periods: relation of ``int_agent_periods``.
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
    """Blocks of consecutive as-ofs, none of them too long."""
    while first <= last:
        end = min(last, first + (block_periods - 1) * setting.period)
        yield Block(first, end, first - setting.longest_memory)
        first = end + setting.period
