"""Compare measurements with the figures stated in docs/measuring.md. Speed is stated for two sizes of fleets."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import click

from benchmarks.measure import Measurements

TOLERANCE = 0.1
"""Maximum relative difference between the fleet's number of traces and the number for which figures are stated."""


class Verdict(NamedTuple):
    """A stated and a measured figure, and whether the stated figure is met."""

    what: str
    stated: str
    measured: str
    met: bool


def compared(what: str, measured: float | None, least: float = -inf, most: float = inf, unit: str = "") -> Verdict:
    """Compare a measured value with a minimum, a maximum, or both.

    :param measured: value in ``unit``, or None if it could not be measured.
    """
    stated = f"{least:g} to {most:g}{unit}"
    if most == inf:
        stated = f"at least {least:g}{unit}"
    elif least == -inf:
        stated = f"at most {most:g}{unit}"
    if measured is None:
        return Verdict(what, stated, "not measured", met=False)
    return Verdict(what, stated, f"{measured:.4g}{unit}", least <= measured <= most)


def announce(verdicts: Sequence[Verdict]) -> bool:
    """Print each stated figure that is not met, and how many are met. Return whether all are met."""
    missed = [verdict for verdict in verdicts if not verdict.met]
    for verdict in missed:
        click.echo(f"Missed: {verdict.what} is {verdict.measured}, stated is {verdict.stated}.")
    click.echo(f"{len(verdicts) - len(missed)} of {len(verdicts)} stated figures are met.")
    return not missed


def judge(one: Measurements) -> Iterator[Verdict]:
    """Compare the speed with each target that is stated for the size of the fleet."""
    history, increment, yardstick = one.history, one.increment, one.specification_seconds
    if _has_size(one, 200, 60, 1_000_000):
        in_database = [run.activity.building_seconds / yardstick for run in (history, increment)]
        yield compared("full history, database time", in_database[0], most=16, unit=" x (b)")
        yield compared("daily increment, database time", in_database[1], most=2, unit=" x (b)")
        yield compared("daily increment, wall time", one.increment_wall_seconds, most=8, unit=" s")
    elif _has_size(one, 10_000, 90, 10_000_000):
        memory = None if history.peak_bytes is None else history.peak_bytes / 2**30
        yield compared("full history, wall time", history.wall_seconds / 60, most=30, unit=" min")
        yield compared("full history, memory", memory, most=1, unit=" GiB")
        yield compared("daily increment, wall time", one.increment_wall_seconds, most=60, unit=" s")


def _has_size(one: Measurements, agents: int, days: int, n_traces: int) -> bool:
    is_near = abs(one.n_traces / n_traces - 1) <= TOLERANCE
    return is_near and (one.agents, one.days) == (agents, days)
