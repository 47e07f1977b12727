"""Fleets of as-ofs that lie close together, whose limits are computed at a time."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ciris_scoring.steps.limits.setting import Setting
from ciris_scoring.steps.limits.waiting import Fleet

BLOCK_PERIODS = 4_000
"""Periods between the first and the last as-of of a block, at most; the longest memory comes on top."""


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
