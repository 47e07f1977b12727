"""Fleets, which are computed together: those that wait, cut into blocks.

A *fleet* is all agents with a row at an as-of and window, because the limits of each depend on the whole fleet. A fleet
waits where no row of the run's range has the digest of its inputs. A *block* is fleets whose as-ofs lie close together,
so that arrays of periods do not grow with the history.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg import sql

from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.setting import Setting

BLOCK_PERIODS = 4_000
"""Periods between the first and the last as-of of a block, at most; the longest memory comes on top."""


class Fleet(NamedTuple):
    """The agents with a row at an as-of and window."""

    as_of: datetime
    window_days: int
    inputs_digest: str
    n_agents: int


def find_waiting(
    session: Session, statistics_inputs: sql.SQL, rewritten_range: str, table: sql.SQL | None
) -> list[Fleet]:
    """Put the fleets that wait into the temporary table ``ciris_fleets``.

    :param rewritten_range: the condition on ``as_of`` of the rows that the run rewrites.
    :param table: what was computed before; None where everything is to be computed.
    :returns: the waiting ones, in the order of their as-ofs.
    """
    # Not correlated: a cluster refuses to correlate a table on every machine with one on the workers.
    is_new = sql.SQL(
        "(as_of, window_days, inputs_digest) not in"
        " (select distinct as_of, window_days, inputs_digest from {} where {})"
    ).format(table or statistics_inputs, sql.SQL(rewritten_range))
    session.execute(
        sql.SQL("""
        create temporary table ciris_fleets on commit drop as
        select as_of, window_days, inputs_digest, n_agents
        from {inputs}
        where {in_range} and {is_new}
        """).format(
            inputs=statistics_inputs,
            in_range=sql.SQL(rewritten_range),
            is_new=sql.SQL("true") if table is None else is_new,
        )
    )
    session.execute("analyze ciris_fleets")
    rows = session.rows(
        "select as_of, window_days, inputs_digest, n_agents from ciris_fleets order by as_of, window_days"
    )
    return [Fleet(*row) for row in rows]


class Block(NamedTuple):
    """Fleets of as-ofs that lie close together, and the arrays of periods that hold their memories."""

    fleets: tuple[Fleet, ...]
    origin: datetime
    """Start of the arrays' first period."""

    @property
    def end(self) -> datetime:
        """The last as-of."""
        return self.fleets[-1].as_of

    def n_periods(self, setting: Setting) -> int:
        """Length of the arrays."""
        return (self.end - self.origin) // setting.period


def blocks(fleets: Sequence[Fleet], setting: Setting, block_periods: int = BLOCK_PERIODS) -> Iterator[Block]:
    """Cut fleets into blocks, where as-ofs lie apart by more than any memory, and where a block gets too long.

    :param fleets: in the order of their as-ofs.
    """
    part: list[Fleet] = []
    for fleet in fleets:
        if part and (
            fleet.as_of - part[-1].as_of > setting.longest_memory
            or fleet.as_of - part[0].as_of > block_periods * setting.period
        ):
            yield Block(tuple(part), part[0].as_of - setting.longest_memory)
            part = []
        part.append(fleet)
    if part:
        yield Block(tuple(part), part[0].as_of - setting.longest_memory)
