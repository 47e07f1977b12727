"""The benchmark from beginning to end: a database, the measurements, the tables, the targets."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from ciris_scoring import embedded
from ciris_scoring.bench.database import own_database
from ciris_scoring.bench.measure import FleetOptions, check_variables, measure
from ciris_scoring.bench.table import conclusion, tables, verdict_table
from ciris_scoring.bench.targets import judge
from ciris_scoring.project import Project, load_project
from ciris_scoring.simulation.load import Progress


def run_bench(
    project: Project,
    fleet: FleetOptions,
    lengths: tuple[int, ...],
    increments: int,
    progress: Progress,
    *,
    keep: bool = False,
) -> bool:
    """Measure in a database of its own on the project's server, and print the tables on stdout.

    :param keep: leave the database at the end; the other parameters are those of `measure`.
    :returns: whether every target that is stated for this fleet is met.
    :raises CirisError: something expected went wrong.
    """
    check_variables(project)
    with own_database(project, keep=keep) as own:
        measured = measure(own, fleet, lengths, increments, progress)
    verdicts = judge(measured)
    click.echo(tables(measured))
    if verdicts:
        click.echo(f"\n{verdict_table(verdicts)}")
    click.echo(f"\n{conclusion(verdicts)}")
    return all(verdict.met for verdict in verdicts)


def run_bench_embedded(
    project_dir: Path | None,
    cli_vars: dict[str, Any],
    fleet: FleetOptions,
    lengths: tuple[int, ...],
    increments: int,
    progress: Progress,
) -> bool:
    """Do the same on an embedded PostgreSQL with default settings, which is thrown away."""
    with embedded.throw_away(default_settings=True) as server, TemporaryDirectory() as profiles_dir:
        embedded.write_profile(Path(profiles_dir), server)
        project = load_project(project_dir, Path(profiles_dir), cli_vars=cli_vars)
        return run_bench(project, fleet, lengths, increments, progress)
