"""Stated figures, whether they were met, and those that are stated for speed, each for its size of fleet."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from benchmarks.measure import Measurements

TOLERANCE = 0.1
"""How far the number of traces may be from a stated size, as a share of it."""


class Verdict(NamedTuple):
    """What a figure is about, what is stated of it, what was measured, and whether the one meets the other."""

    what: str
    stated: str
    measured: str
    met: bool


def between(what: str, measured: float, least: float, most: float) -> Verdict:
    """Compare with the least and the most that something may be."""
    return Verdict(what, f"{least:g} to {most:g}", f"{measured:.4g}", least <= measured <= most)


def at_least(what: str, measured: float, least: float) -> Verdict:
    """Compare with the least that something may be."""
    return Verdict(what, f"at least {least:g}", f"{measured:.4g}", measured >= least)


def at_most(what: str, measured: float | None, most: float, unit: str = "") -> Verdict:
    """Compare with the most that something may be.

    :param measured: in its unit; None where it could not be measured.
    """
    said = "not measured" if measured is None else f"{measured:.4g}{unit}"
    return Verdict(what, f"at most {most:.4g}{unit}", said, measured is not None and measured <= most)


def announce(verdicts: Sequence[Verdict]) -> bool:
    """Print which figures were missed in the last lines; return whether none was."""
    missed = [verdict for verdict in verdicts if not verdict.met]
    for verdict in missed:
        click.echo(f"Missed: {verdict.what} is {verdict.measured}, stated is {verdict.stated}.")
    click.echo(f"{len(verdicts) - len(missed)} of {len(verdicts)} stated figures are met.")
    return not missed


def judge(one: Measurements) -> Iterator[Verdict]:
    """Judge every target of speed that is stated for what was measured."""
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
