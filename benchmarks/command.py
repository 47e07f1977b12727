"""The benchmark from beginning to end: a database, the measurements, the tables, the targets."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.arriving import FleetOptions
from benchmarks.database import own_database
from benchmarks.measure import check_variables, measure
from benchmarks.table import tables
from benchmarks.targets import judge
from benchmarks.verdicts import announce
from ciris_scoring.basics.project import Project
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.load import Progress
from ciris_scoring.options import Place


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
    click.echo(tables(measured))
    return announce(judge(measured))


def run_bench_embedded(
    place: Place,
    fleet: FleetOptions,
    lengths: tuple[int, ...],
    increments: int,
    progress: Progress,
) -> bool:
    """Do the same on an embedded PostgreSQL with default settings, which is thrown away."""
    with embedded.throw_away(default_settings=True) as server, TemporaryDirectory() as profiles_dir:
        embedded.write_profile(Path(profiles_dir), server)
        own = replace(place, profiles_dir=Path(profiles_dir))
        return run_bench(own.project(), fleet, lengths, increments, progress)
