"""Load batches into a separate database of the embedded PostgreSQL and score them there."""

import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from psycopg import sql

from ciris_scoring.audit.load import load, report
from ciris_scoring.cli.after_run import AfterRun
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, one_row
from ciris_scoring.database.project import BATCHES_FOLDER, Project, project_option
from ciris_scoring.database.terminal import say
from ciris_scoring.errors import InputError
from ciris_scoring.lab import embedded
from ciris_scoring.names import PERIODS

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
    """Load batches and score them. Return whether all traces were loaded and verified.

    The default as-of is the end of the period of the newest trace of a scored run kind, or the start of this period
    while it is not over.
    """
    project, server = embedded.own_project(project_dir, BATCHES_FOLDER, DATABASE, cli_vars)
    summary = load(project, paths, keys_files)
    for line in report(summary):
        click.echo(line, err=True)
    newest = _newest_trace(project)
    if newest is None:
        raise InputError(
            "No trace with a time up to now is loaded, so there is nothing to score.",
            "Name files or folders with batches of traces.",
        )
    if as_of is None and project.variables.get("as_of") is None:
        as_of = _end_of_period(newest, project)
    after_run.run(project, as_of, full_refresh=full_refresh, allow_rescoring=allow_rescoring)
    if not after_run.for_machines:
        place = shlex.quote(os.path.relpath(project.profiles_dir)) + project_option(project.project_dir)
        click.echo(NEXT_STEPS.format(database=DATABASE, place=place, psql=server.psql_command(DATABASE)))
    return summary.is_clean


def _newest_trace(project: Project) -> datetime | None:
    """Return the time of the newest trace that is scored or, if there is none, of the newest trace."""
    table = project.source_table("covenant_traces")
    query = """
        select coalesce(max("timestamp") filter (where coalesce(run_kind, 'production') = any(%s)), max("timestamp"))
        from {table}
        where "timestamp" <= now()
    """
    with connect(project) as connection, connection.transaction():
        kinds = list(project.variables["scored_run_kinds"])
        newest: datetime | None = one_row(connection.execute(sql.SQL(query).format(table=table), [kinds]))[0]
    return newest


def _end_of_period(newest: datetime, project: Project) -> str:
    """Return the time of the newest trace plus one period, but at most the end of the last complete period."""
    name = project.variables.get("scoring_period", "day")
    last_end = as_of_time.resolve(None, name, datetime.now(UTC))
    if newest >= last_end:
        say(
            f"Traces of the present {name} are scored when it is over. To score by the hour: "
            "--vars '{ciris_scoring_period: hour}'"
        )
    return as_of_time.text(min(last_end, newest + PERIODS[name]))
