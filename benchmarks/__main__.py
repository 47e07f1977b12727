"""The command line of the benchmarks: `make bench`, or `python -m benchmarks` in the repository."""

import sys

import click
from click.core import ParameterSource

from ciris_scoring.basics.errors import InputError
from ciris_scoring.cli import Commands
from ciris_scoring.options import Place, database_options, every_second, fleet_options


@click.group(
    cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@fleet_options(agents=200, days=None, days_help="Days of history.  [default: 60]", traces_per_day=90.0)
@click.option(
    "--increments",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Days that arrive after the history, each scored by an increment; the median one is shown.",
)
@click.option("--growth", is_flag=True, help="Measure after 30, 60 and 120 days of history, and compare.")
@click.option("--keep", is_flag=True, help="Leave the database of the benchmark at the end.")
@click.option(
    "--embedded",
    is_flag=True,
    help="Use a PostgreSQL that comes with the package, with default settings, and throw it away.",
)
@database_options
@click.pass_context
def main(
    context: click.Context,
    agents: int,
    days: int | None,
    traces_per_day: float,
    seed: int,
    increments: int,
    growth: bool,
    keep: bool,
    embedded: bool,
    place: Place,
) -> None:
    """Measure scoring on a simulated fleet, beside the specification's own SQL.

    It works in a database of its own, ciris_bench, on the server of the profile, which it creates and drops; the role
    needs the right to create databases. Without options it simulates a million traces, which takes a few minutes and
    5 GB of disk. docs/measuring.md explains each line that it prints.

    The exit code is 1 when a target is missed; the last line says which. Targets are stated for 200 agents and
    60 days of a million traces, and for 10,000 agents and 90 days of ten million.

    \b
    Examples:
      python -m benchmarks --embedded
      python -m benchmarks --agents 10000 --days 90 --traces-per-day 12
      python -m benchmarks --growth --target staging
      python -m benchmarks --agents 20 --days 10                    # any other size, without targets
      python -m benchmarks coverage                                 # how often intervals hold the truth
      python -m benchmarks signs                                    # which polished records are seen
    """
    if context.invoked_subcommand is not None:
        given = [
            name
            for name in context.params
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        ]
        if given:
            option, command = given[0].replace("_", "-"), context.invoked_subcommand
            raise InputError(
                f"--{option} belongs to the benchmark of scoring, not to {command}.",
                f"Leave it out, or put options of {command} behind its name.",
            )
        return
    from benchmarks.arriving import FleetOptions
    from benchmarks.command import run_bench, run_bench_embedded
    from benchmarks.targets import GROWTH_LENGTHS

    if growth and days:
        raise InputError(
            "--growth chooses the days of history itself.", "Leave out either --growth or --days."
        )
    lengths = GROWTH_LENGTHS if growth else (days or 60,)
    work = (FleetOptions(agents, traces_per_day, seed), lengths, increments, every_second("traces written"))
    if embedded:
        if place.target or place.profiles_dir or keep:
            raise InputError(
                "--embedded brings a server that is thrown away, so --target, --profiles-dir and --keep have no "
                "meaning with it.",
                "Leave out either --embedded or the other three.",
            )
        met = run_bench_embedded(place, *work)
    else:
        met = run_bench(place.project(), *work, keep=keep)
    if not met:
        sys.exit(1)


@main.command()
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Simulated agents per case, in whole fleets of 100. For every 125 a fleet of 50 lives a year; half of them "
    "are watched for alerts.",
)
@click.option(
    "--part", type=click.Choice(["intervals", "year", "alarms"]), help="One of three.  [default: all]"
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Same seed, same agents."
)
def coverage(rows: int, part: str | None, seed: int) -> None:
    """Measure how often scores and intervals are right, on simulated agents whose truth is known.

    It needs no database; with 2,000 rows some 15 minutes on one core. Printed are the coverage and the widths of
    intervals; of a year with changes at unknown times, what each score says of the long run and what six ways to decide
    by it lead to; how often agents that do not change raise alerts, on seven kinds of days; and when changes are seen.

    The exit code is 1 when a stated figure is missed; the last lines say which.

    \b
    Example:
      python -m benchmarks coverage --part year
    """
    from benchmarks.coverage.command import PARTS, run_coverage

    parts = PARTS if part is None else (part,)
    if not run_coverage(rows, seed, lambda name: click.echo(f"measured: {name}", err=True), parts):
        sys.exit(1)


@main.command()
@click.option(
    "--part", type=click.Choice(["honest", "polished", "scrubbed"]), help="One of three.  [default: all]"
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Same seed, same agents."
)
def signs(part: str | None, seed: int) -> None:
    """Measure how often honest agents raise signs of a polished record, and which manipulations are caught.

    It simulates fleets of several sizes on a PostgreSQL that it throws away: honest ones, some careless; polished ones
    at 600 traces a week; and such as leave out verdicts, copy records or change keys at 100 and 300. About 15 minutes.

    The exit code is 1 when a stated figure is missed; the last lines say which.

    \b
    Example:
      python -m benchmarks signs --part honest
    """
    from benchmarks.coverage.signs import run_signs

    if not run_signs(part, seed, lambda row: click.echo(f"measured: {row}", err=True)):
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
