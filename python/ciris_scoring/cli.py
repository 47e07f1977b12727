"""The command line: `ciris-scoring run`, `resilience`, `simulate` and `bench`."""

import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ciris_scoring import as_of as as_of_time
from ciris_scoring.errors import CirisError, InputError

FOLDER = click.Path(file_okay=False, path_type=Path)

# Modules that import dbt or pandas are imported by the commands that need them, so that --help answers at once.


class Commands(click.Group):
    """A group of commands whose expected errors are a line and a hint on stderr, and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CirisError as error:
            click.echo(f"{click.style('Error:', fg='red', bold=True)} {error.message}", err=True)
            if error.hint:
                click.echo(f"{click.style('Hint:', fg='yellow')} {error.hint}", err=True)
            ctx.exit(error.exit_code)


def database_options(command: Callable) -> Callable:
    """Add the options of every command that works in a database."""
    for option in (
        click.option(
            "--vars",
            "variables",
            metavar="YAML",
            help="dbt variables, as a YAML dictionary: '{name: value}'.",
        ),
        click.option(
            "--project-dir", type=FOLDER, help="Folder of dbt_project.yml. [default: here or above]"
        ),
        click.option(
            "--profiles-dir",
            type=FOLDER,
            help="Folder of profiles.yml. [default: $DBT_PROFILES_DIR, here, ~/.dbt]",
        ),
        click.option("--target", help="Target in the profile. [default: the profile's own]"),
    ):
        command = option(command)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ciris-scoring")
def main() -> None:
    """Score a fleet of agents from their signed traces: the CIRIS Capacity Score on PostgreSQL.

    The database is the one of the dbt profile `ciris_scoring` (profiles.yml.example shows how to write it), or one
    that comes with the package: `ciris-scoring run --embedded`.

    Progress goes to stderr and results to stdout. The exit code is 0 on success, 1 when the work failed, and 2 when
    the command, the profile or a value was wrong and nothing was started.
    """


@main.command()
@click.option(
    "--as-of",
    metavar="TIME",
    help="Score what was known at this time, ISO 8601, UTC unless it has an offset; it is cut down to the end of a "
    "period. [default: now]",
)
@click.option("--full-refresh", is_flag=True, help="Compute the whole history of scores again.")
@click.option(
    "--from",
    "first",
    metavar="TIME",
    help="Backfill: score the as-ofs from this one, in steps, each a whole run.",
)
@click.option("--to", "last", metavar="TIME", help="Backfill: score the as-ofs up to this one.")
@click.option(
    "--step-days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Backfill: days of traces in a step, which bounds its memory and disk.",
)
@click.option(
    "--restart", is_flag=True, help="Backfill: begin again, instead of going on where the same one stopped."
)
@click.option(
    "--allow-rescoring",
    is_flag=True,
    help="Let --full-refresh, or --from and --to, replace scores that are published.",
)
@click.option(
    "--embedded", is_flag=True, help="Use the PostgreSQL that comes with the package, and the sample traces."
)
@database_options
def run(
    as_of: str | None,
    full_refresh: bool,
    first: str | None,
    last: str | None,
    step_days: int,
    restart: bool,
    allow_rescoring: bool,
    embedded: bool,
    target: str | None,
    profiles_dir: Path | None,
    project_dir: Path | None,
    variables: str | None,
) -> None:
    """Score the fleet: build, compute resilience, build the marts, print the fleet table.

    A run adds the as-of times since the last one, and corrects those within the lookback. It stops at the first
    failing model or test, before the marts: what was published stays as it was. Two runs on one target never mix;
    the second waits a few seconds, then stops.

    \b
    Examples:
      ciris-scoring run                              # up to the last complete period
      ciris-scoring run --as-of 2026-06-15           # reproducible: only traces before this time
      ciris-scoring run --target prod --vars '{source_schema: lens, scoring_period: hour}'
      ciris-scoring run --full-refresh --allow-rescoring
      ciris-scoring run --from 2026-05-01 --to 2026-06-15 --allow-rescoring
      ciris-scoring run --embedded                   # the sample, without a database of your own
    """
    from ciris_scoring import run as job
    from ciris_scoring.connection import load_project, parse_vars

    options = {"full_refresh": full_refresh, "allow_rescoring": allow_rescoring}
    cli_vars = parse_vars(variables)
    if first or last:
        if not (first and last):
            raise InputError("--from and --to name a range together.", "Give both.")
        if as_of or full_refresh or embedded:
            raise InputError(
                "--from and --to do not go with --as-of, --full-refresh or --embedded.", "Leave those out."
            )
        job.run_backfill(
            load_project(project_dir, profiles_dir, target, cli_vars),
            first,
            last,
            step_days=step_days,
            allow_rescoring=allow_rescoring,
            restart=restart,
        )
    elif restart:
        raise InputError("--restart goes with --from and --to.", "Leave it out.")
    elif embedded:
        if target or profiles_dir:
            raise InputError(
                "--embedded brings its own profile, so --target and --profiles-dir have no meaning with it.",
                "Leave out either --embedded or the other two.",
            )
        job.run_embedded(project_dir, cli_vars, as_of, **options)
    else:
        job.run(load_project(project_dir, profiles_dir, target, cli_vars), as_of, **options)


@main.command()
@database_options
def resilience(
    target: str | None, profiles_dir: Path | None, project_dir: Path | None, variables: str | None
) -> None:
    """Compute the resilience scores that are waiting: the Python step alone.

    It comes between the two halves of a run, for schedulers that call dbt themselves. All of it happens in one
    transaction; running it again finds nothing to do.

    \b
    Example, the same as `ciris-scoring run`:
      dbt build --selector before_resilience
      ciris-scoring resilience
      dbt build --selector after_resilience
    """
    from ciris_scoring import run as job
    from ciris_scoring.connection import load_project, parse_vars

    job.resilience(load_project(project_dir, profiles_dir, target, parse_vars(variables)))


@main.command()
@click.option("--agents", type=click.IntRange(min=1), default=20, show_default=True, help="Number of agents.")
@click.option("--days", type=click.IntRange(min=1), default=45, show_default=True, help="Days of traces.")
@click.option(
    "--traces-per-day",
    type=click.FloatRange(min=0, min_open=True),
    default=25.0,
    show_default=True,
    help="Mean per agent and day.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Same seed, same fleet."
)
@click.option(
    "--end", metavar="TIME", help="When the traces end, a whole UTC hour. [default: today 00:00 UTC]"
)
@database_options
def simulate(
    agents: int,
    days: int,
    traces_per_day: float,
    seed: int,
    end: str | None,
    target: str | None,
    profiles_dir: Path | None,
    project_dir: Path | None,
    variables: str | None,
) -> None:
    """Write a simulated fleet into the source tables, to try things out.

    The agents behave in named ways: healthy, drifting, with a broken chain, with a revoked key, stuck fragile,
    relapsing, overconfident, renamed, new, silent. Tables that do not exist are created; a traces table that holds
    traces is refused.

    \b
    Examples:
      ciris-scoring simulate --agents 50 --days 60 --seed 7
      ciris-scoring simulate --vars '{source_schema: simulated}' --end 2026-06-15
    """
    from ciris_scoring.connection import connect, load_project, parse_vars
    from ciris_scoring.simulate import load_fleet
    from ciris_scoring.simulation import stream_fleet

    project = load_project(project_dir, profiles_dir, target, parse_vars(variables))
    now = datetime.now(UTC)
    moment = as_of_time.resolve(None, "day", now) if end is None else as_of_time.parse_time(end, "--end")
    try:
        fleet = stream_fleet(agents, days, traces_per_day, seed, moment)
    except ValueError as error:
        raise InputError(
            f"This fleet cannot be simulated: {error}", "See ciris-scoring simulate --help."
        ) from error
    with connect(project) as connection:
        n_traces = load_fleet(
            connection, fleet, project.source_schema, project.source_tables, _every_second("traces written")
        )
    click.echo(f"{n_traces:,} traces of {agents} agents are in {project.source_schema}.")
    click.echo(f"Score them with: ciris-scoring run --as-of {as_of_time.text(moment)}")


@main.command()
@click.option(
    "--agents", type=click.IntRange(min=1), default=200, show_default=True, help="Number of agents."
)
@click.option("--days", type=click.IntRange(min=1), help="Days of history.  [default: 60]")
@click.option(
    "--traces-per-day",
    type=click.FloatRange(min=0, min_open=True),
    default=90.0,
    show_default=True,
    help="Mean per agent and day.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Same seed, same fleet."
)
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
def bench(
    agents: int,
    days: int | None,
    traces_per_day: float,
    seed: int,
    increments: int,
    growth: bool,
    keep: bool,
    embedded: bool,
    target: str | None,
    profiles_dir: Path | None,
    project_dir: Path | None,
    variables: str | None,
) -> None:
    """Measure scoring on a simulated fleet, beside the specification's own SQL.

    It works in a database of its own, ciris_bench, on the server of the profile, which it creates and drops; the role
    needs the right to create databases. Without options it simulates a million traces, which takes a few minutes and
    5 GB of disk. docs/operations explains each line that it prints.

    The exit code is 1 when a target is missed; the last line says which. Targets are stated for 200 agents and
    60 days of a million traces, and for 10,000 agents and 90 days of ten million.

    
    Examples:
      ciris-scoring bench --embedded
      ciris-scoring bench --agents 10000 --days 90 --traces-per-day 12
      ciris-scoring bench --growth --target staging
      ciris-scoring bench --agents 20 --days 10                    # any other size, without targets
    """
    from ciris_scoring.bench.command import run_bench, run_bench_embedded
    from ciris_scoring.bench.measure import FleetOptions
    from ciris_scoring.bench.targets import GROWTH_LENGTHS
    from ciris_scoring.connection import load_project, parse_vars

    if growth and days:
        raise InputError(
            "--growth chooses the days of history itself.", "Leave out either --growth or --days."
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was made is dropped first
    lengths = GROWTH_LENGTHS if growth else (days or 60,)
    work = (FleetOptions(agents, traces_per_day, seed), lengths, increments, _every_second("traces written"))
    cli_vars = parse_vars(variables)
    if embedded:
        if target or profiles_dir or keep:
            raise InputError(
                "--embedded brings a server that is thrown away, so --target, --profiles-dir and --keep have no "
                "meaning with it.",
                "Leave out either --embedded or the other three.",
            )
        met = run_bench_embedded(project_dir, cli_vars, *work)
    else:
        met = run_bench(load_project(project_dir, profiles_dir, target, cli_vars), *work, keep=keep)
    if not met:
        sys.exit(1)


def _every_second(what: str) -> Callable[[int, int], None]:
    """Progress on stderr, a line a second at most, and one at the end."""
    last = time.monotonic()

    def progress(done: int, expected: int) -> None:
        nonlocal last
        if done == expected or time.monotonic() - last > 1:
            last = time.monotonic()
            click.echo(f"{done:,} of {expected:,} {what}", err=True)

    return progress


if __name__ == "__main__":
    main()
