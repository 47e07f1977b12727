"""Score a project on the embedded PostgreSQL, by default with the sample."""

import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import psycopg
from psycopg import sql

from ciris_scoring.cli.after_run import AfterRun
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, one_row, table_exists
from ciris_scoring.database.project import Project, project_option
from ciris_scoring.database.terminal import plural, say
from ciris_scoring.database.terminal import progress as report
from ciris_scoring.errors import InputError
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import load_sample
from ciris_scoring.names import PERIODS

EVENTS = "trace_events"

CONNECTION = """
The embedded PostgreSQL keeps running; to stop it: {ciris_scoring} stop{project}
  host      {server.socket_folder}
  port      {server.port}
  user      {server.user} (no password)
  database  {database}
  psql      {psql}
  dbt       {dbt} build --profiles-dir {profiles}{project} --vars 'ciris_as_of: {as_of}'"""


def run_embedded(
    project: Project,
    as_of: str | None,
    after_run: AfterRun,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
) -> None:
    """Score a project that uses the embedded PostgreSQL. If the database has no traces, the sample is loaded first.

    :raises CirisError: the run fails or is refused.
    """
    with connect(project, writes=True) as connection, connection.transaction():
        table = _table_with_traces(project, connection)
        if table is None:
            n_traces = load_sample(connection, project.source_schema, project.source_tables)
            report(f"Loaded the sample: {plural(n_traces, 'trace')} in {project.source_schema}.")
        else:
            report(f"Using the traces in {project.source_schema}.{table}.")
    if as_of is None and table != EVENTS:
        as_of = default_as_of(project)  # so the scores of the sample are always the same
    moment = after_run.run(project, as_of, full_refresh=full_refresh, allow_rescoring=allow_rescoring)
    if after_run.for_machines:
        return
    server = embedded.start(project.profiles_dir)
    click.echo(
        CONNECTION.format(
            server=server,
            database=embedded.DATABASE,
            psql=server.psql_command(),
            ciris_scoring=_program("ciris-scoring"),
            dbt=_program("dbt"),
            project=project_option(project.project_dir),
            profiles=shlex.quote(str(_short(project.profiles_dir))),
            as_of=as_of_time.text(moment),
        )
    )


def _table_with_traces(project: Project, connection: psycopg.Connection) -> str | None:
    """Return the source table that has traces or events, or None."""
    for table in (EVENTS, project.source_tables["covenant_traces"]):
        if table_exists(connection, project.source_schema, table):
            query = sql.SQL("select exists (select from {})").format(sql.Identifier(project.source_schema, table))
            if one_row(connection.execute(query))[0]:
                return table
    return None


def default_as_of(project: Project) -> str | None:
    """Return the end of the period of the newest trace that is scored or, if there is none, of the newest trace, but at
    most the end of the last complete period. Return None if a variable has the as-of.

    :raises InputError: there is no trace.
    """
    if project.variables.get("as_of") is not None:
        return None
    query = """
        select coalesce(max("timestamp") filter (where coalesce(run_kind, 'production') = any(%s)), max("timestamp"))
        from {}
        where "timestamp" <= now()
    """
    kinds = list(project.variables["scored_run_kinds"])
    with connect(project) as connection, connection.transaction():
        composed = sql.SQL(query).format(project.source_table("covenant_traces"))
        newest: datetime | None = one_row(connection.execute(composed, [kinds]))[0]
    if newest is None:
        raise InputError(
            "No trace with a time up to now is loaded, so there is nothing to score.",
            "Load traces, or name files or folders with batches of traces.",
        )
    period = project.variables.get("scoring_period", "day")
    as_of = as_of_time.resolve(None, period, min(datetime.now(UTC), newest + PERIODS[period]))
    if newest >= as_of:
        say(
            f"Traces of the present {period} are scored when it is over. To score by the hour: "
            "--vars '{ciris_scoring_period: hour}'"
        )
    return as_of_time.text(as_of)


def _program(name: str) -> str:
    """Return the command for a program of this environment: its name if the shell finds it, otherwise its path."""
    return name if shutil.which(name) else shlex.quote(str(_short(Path(sys.executable).parent / name)))


def _short(path: Path) -> Path:
    """Return a path below the current folder relative to this folder, and any other path unchanged."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
