"""Load batches into a separate database of the embedded PostgreSQL and score them there."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ciris_scoring.audit.load import load, report
from ciris_scoring.cli.after_run import AfterRun
from ciris_scoring.cli.run_embedded import default_as_of
from ciris_scoring.database.project import BATCHES_FOLDER, project_option
from ciris_scoring.lab import embedded

DATABASE = "ciris_batches"
"""Database for loaded batches. It is separate from the database of the sample, so that their traces are not mixed."""
NEXT_STEPS = """
The traces stay in the database {database} of the embedded PostgreSQL. Next steps:
  ciris-scoring explain AGENT --profiles-dir {place}
  ciris-scoring report --profiles-dir {place}
  {psql}"""


def run_from_batches(
    paths: Sequence[Path],
    keys_files: Sequence[Path],
    project_dir: Path | None,
    cli_vars: dict[str, Any],
    as_of: str | None,
    after_run: AfterRun,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
) -> bool:
    """Load batches and score them. Return whether all traces were loaded and verified."""
    project, server = embedded.own_project(project_dir, BATCHES_FOLDER, DATABASE, cli_vars)
    summary = load(project, paths, keys_files)
    for line in report(summary):
        click.echo(line, err=True)
    if as_of is None:
        as_of = default_as_of(project)
    after_run.run(project, as_of, full_refresh=full_refresh, allow_rescoring=allow_rescoring)
    if not after_run.for_machines:
        place = shlex.quote(os.path.relpath(project.profiles_dir)) + project_option(project.project_dir)
        click.echo(NEXT_STEPS.format(database=DATABASE, place=place, psql=server.psql_command(DATABASE)))
    return summary.is_clean
