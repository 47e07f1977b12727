"""Command line of the benchmarks: `make bench`, or `python -m benchmarks` in the repository."""

import sys
from collections.abc import Callable, Iterable

import click

from benchmarks.coverage.command import PARTS
from benchmarks.coverage.red_flags import MEASURES
from benchmarks.measure import FleetOptions, measure
from benchmarks.table import show_speed
from benchmarks.verdicts import Verdict, announce, judge
from ciris_scoring.cli import Commands
from ciris_scoring.options import Command, fleet_options

seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Same seed, same agents."
)


def part_option(parts: Iterable[str]) -> Callable[[Command], Command]:
    """Return a decorator for the option that selects one part of a measurement."""
    return click.option("--part", type=click.Choice(list(parts)), help="One of three.  [default: all]")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure speed, intervals and red flags; docs/measuring.md explains each line that is printed.

    The exit code is 1 when a stated figure is missed; the last lines say which.
    """


@main.command()
@fleet_options(agents=200, days=60, traces_per_day=90.0)
@click.option(
    "--increments",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Days that arrive after the history, each scored by an increment; the median one is shown.",
)
def speed(agents: int, days: int, traces_per_day: float, seed: int, increments: int) -> None:
    """Measure scoring on a simulated fleet, beside the specification's own SQL.

    It works on an embedded PostgreSQL with default settings, which it throws away. Without options it simulates a
    million traces, which takes a few minutes and 5 GB of disk. Targets are stated for 200 agents and 60 days of a
    million traces, and for 10,000 agents and 90 days of ten million.
    """
    measured = measure(FleetOptions(agents, traces_per_day, seed), days, increments)
    show_speed(measured)
    _end(list(judge(measured)))


@main.command()
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Simulated agents per case, in whole fleets of 100. For every 125 a fleet of 50 lives a year; half of them "
    "are watched for alerts.",
)
@part_option(PARTS)
@seed_option
def coverage(rows: int, part: str | None, seed: int) -> None:
    """Measure how often scores and intervals are right, on simulated agents whose truth is known.

    It needs no database; with 2,000 rows some 15 minutes on one core. Printed are the coverage and the widths of
    intervals; of a year with changes at unknown times, what each score says of the long run and what six ways to decide
    by it lead to; how often agents that do not change raise alerts, on seven kinds of days; and when changes are seen.
    """
    _end([one for name, run in PARTS.items() if part in (None, name) for one in run(rows, seed)])


@main.command()
@part_option(MEASURES)
@seed_option
def red_flags(part: str | None, seed: int) -> None:
    """Measure how often honest agents raise red flags of selective reporting, and which manipulations are caught.

    It simulates fleets of several sizes on a PostgreSQL that it throws away: honest ones, some careless; polished ones
    at 600 traces a week; and such as leave out verdicts, copy records or change keys at 100 and 300. About 15 minutes.
    """
    _end([one for name, run in MEASURES.items() if part in (None, name) for one in run(seed)])


def _end(verdicts: list[Verdict]) -> None:
    if not announce(verdicts):
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
