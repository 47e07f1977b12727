"""Command line of the benchmarks: `make bench`, or `python -m benchmarks` in the repository."""

import sys
from collections.abc import Callable, Iterable

import click

from benchmarks.coverage.command import PARTS
from benchmarks.coverage.red_flags import MEASURES
from benchmarks.measure import measure
from benchmarks.table import show_speed
from benchmarks.verdicts import Verdict, announce, judge
from ciris_scoring.cli.commands import Commands
from ciris_scoring.cli.options import Command, fleet_options

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="The same seed gives the same agents.",
)


def part_option(parts: Iterable[str]) -> Callable[[Command], Command]:
    """Return a decorator for the option that selects one part of a measurement."""
    return click.option("--part", type=click.Choice(list(parts)), help="Part to measure. [default: all]")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure speed, intervals and red flags. docs/measuring.md explains the figures.

    Many figures have a limit in the code. The exit code is 1 if one is missed; the last lines name it.
    """


@main.command()
@fleet_options(agents=200, days=60, traces_per_day=90.0)
@click.option(
    "--increments",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of days after the history. A separate run scores each day, and the median run is shown.",
)
def speed(agents: int, days: int, traces_per_day: float, seed: int, increments: int) -> None:
    """Measure the time of scoring on a simulated fleet, compared with the specification's own SQL.

    The database is a temporary embedded PostgreSQL with default settings. By default a million traces are simulated,
    which takes a few minutes and 5 GB of disk. Targets are stated for 200 agents with 60 days and a million traces, and
    for 10,000 agents with 90 days and ten million traces.
    """
    measured = measure(agents, days, traces_per_day, seed, increments)
    show_speed(measured)
    _end(list(judge(measured)))


@main.command()
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Number of simulated agents per case, rounded up to whole fleets of 100. The year has a fleet of 50 agents "
    "for every 125 rows. Alerts are measured on rows / 2 unchanged and rows / 4 changed agents.",
)
@part_option(PARTS)
@seed_option
def coverage(rows: int, part: str | None, seed: int) -> None:
    """Measure how often scores and intervals are right, on simulated agents whose truth is known.

    No database is needed. 2,000 rows take about 15 minutes on one core. Three parts are measured. intervals: coverage
    and width of the intervals. year: accuracy of scores, and of decisions by these scores, in a year with changes at
    unknown times. alarms: false alerts of agents that do not change, and the delay until a change is detected.
    """
    _end([one for name, run in PARTS.items() if part in (None, name) for one in run(rows, seed)])


@main.command()
@part_option(MEASURES)
@seed_option
def red_flags(part: str | None, seed: int) -> None:
    """Measure how often honest agents raise red flags of selective reporting, and which manipulations are found.

    Fleets are simulated on a temporary PostgreSQL. Three parts are measured. honest: false alarms of honest agents,
    some of them careless. polished: manipulated agents with 600 traces a week. scrubbed: agents with 100 or 300 traces
    a week that omit fields, copy records or change keys. All parts take about 15 minutes.
    """
    _end([one for name, run in MEASURES.items() if part in (None, name) for one in run(seed)])


def _end(verdicts: list[Verdict]) -> None:
    if not announce(verdicts):
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
