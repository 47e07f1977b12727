"""Score a project on the embedded PostgreSQL, by default with the sample."""

import shlex
import shutil
import sys
from pathlib import Path

import click
import psycopg
from psycopg import sql

from ciris_scoring.cli.after_run import AfterRun
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, one_row, table_exists
from ciris_scoring.database.project import Project, project_option
from ciris_scoring.database.terminal import plural
from ciris_scoring.database.terminal import progress as report
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.load import TargetHoldsTraces
from ciris_scoring.lab.simulation.sample import SAMPLE, holds_only_sample, load_sample

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

    The default as-of of the sample is its end, so that its scores are always the same. Other traces are scored up to
    now.

    :raises CirisError: the run fails or is refused.
    """
    with connect(project) as connection, connection.transaction():
        is_sample = _has_only_sample(project, connection)
    if is_sample and as_of is None and project.variables.get("as_of") is None:
        as_of = SAMPLE["as_of"]
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


def _has_only_sample(project: Project, connection: psycopg.Connection) -> bool:
    """Load the sample if the source has no traces and no events, and return whether it then has nothing else."""
    schema, tables = project.source_schema, project.source_tables
    if table_exists(connection, schema, "trace_events"):
        query = sql.SQL("select exists (select from {})").format(sql.Identifier(schema, "trace_events"))
        if one_row(connection.execute(query))[0]:
            report(f"Using the events in {schema}.trace_events.")
            return False
    try:
        n_traces = load_sample(connection, schema, tables)
    except TargetHoldsTraces as held:
        report(f"Using the {plural(held.n, 'trace')} in {held.table}.")
        return holds_only_sample(connection, schema, tables)
    report(f"Loaded the sample: {plural(n_traces, 'trace')} in {schema}.")
    return True


def _program(name: str) -> str:
    """Return the command for a program of this environment: its name if the shell finds it, otherwise its path."""
    return name if shutil.which(name) else shlex.quote(str(_short(Path(sys.executable).parent / name)))


def _short(path: Path) -> Path:
    """Return a path below the current folder relative to this folder, and any other path unchanged."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
