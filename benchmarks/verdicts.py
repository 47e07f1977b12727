"""Compare measurements with the stated figures. The figures for speed depend on the size of the fleet."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import click

from benchmarks.measure import Measurements

TOLERANCE = 0.1
"""Maximum relative difference between the number of traces and a stated size."""


class Verdict(NamedTuple):
    """A stated figure, the measured one, and whether the target is met."""

    what: str
    stated: str
    measured: str
    met: bool


def between(what: str, measured: float, least: float, most: float) -> Verdict:
    """Compare with a minimum and a maximum. One of them may be infinite."""
    stated = f"{least:g} to {most:g}"
    if most == inf:
        stated = f"at least {least:g}"
    elif least == -inf:
        stated = f"at most {most:g}"
    return Verdict(what, stated, f"{measured:.4g}", least <= measured <= most)


def at_most(what: str, measured: float | None, most: float, unit: str = "") -> Verdict:
    """Compare with a maximum.

    :param measured: value in ``unit``, or None if it could not be measured.
    """
    said = "not measured" if measured is None else f"{measured:.4g}{unit}"
    return Verdict(what, f"at most {most:.4g}{unit}", said, measured is not None and measured <= most)


def announce(verdicts: Sequence[Verdict]) -> bool:
    """Print the missed figures as the last lines. Return true if no figure is missed."""
    missed = [verdict for verdict in verdicts if not verdict.met]
    for verdict in missed:
        click.echo(f"Missed: {verdict.what} is {verdict.measured}, stated is {verdict.stated}.")
    click.echo(f"{len(verdicts) - len(missed)} of {len(verdicts)} stated figures are met.")
    return not missed


def judge(one: Measurements) -> Iterator[Verdict]:
    """Yield the result for each speed target that is stated for the size of the fleet."""
    history, increment, yardstick = one.history, one.increment, one.specification_seconds
    if _has_size(one, 200, 60, 1_000_000):
        in_database = [run.activity.building_seconds / yardstick for run in (history, increment)]
        yield at_most("full history, database time", in_database[0], 16, " x (b)")
        yield at_most("daily increment, database time", in_database[1], 2, " x (b)")
        yield at_most("daily increment, wall time", one.increment_wall_seconds, 8, " s")
    elif _has_size(one, 10_000, 90, 10_000_000):
        memory = None if history.peak_bytes is None else history.peak_bytes / 2**30
        yield at_most("full history, wall time", history.wall_seconds / 60, 30, " min")
        yield at_most("full history, memory", memory, 1, " GiB")
        yield at_most("daily increment, wall time", one.increment_wall_seconds, 60, " s")


def _has_size(one: Measurements, agents: int, days: int, n_traces: int) -> bool:
    is_near = abs(one.n_traces / n_traces - 1) <= TOLERANCE
    return is_near and (one.fleet.agents, one.days) == (agents, days)
