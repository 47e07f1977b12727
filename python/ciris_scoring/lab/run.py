"""A run on the embedded PostgreSQL with the sample."""

import shlex
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import psycopg
from psycopg import sql

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.project import STATE_FOLDER, find_project, load_project
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.terminal import plural, printable
from ciris_scoring.basics.terminal import progress as report
from ciris_scoring.job.after_run import AfterRun
from ciris_scoring.job.run import run
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.load import TargetHoldsTraces
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample

SHOWN_MARTS = ("fct_factor_components", "fct_trace_checks", "fct_fleet_capacity")
"""Marts in the example queries of ``NEXT_STEPS``."""
NEXT_STEPS = """
The embedded PostgreSQL keeps running; to stop it: {stop}
  host      {server.socket_folder}
  port      {server.port}
  user      {server.user} (no password)
  database  {database}
  psql      {psql}
  dbt       {dbt} build --profiles-dir {profiles} --vars 'ciris_as_of: {as_of}'

Next steps:

  -- Components of the lowest score of the fleet
  select factor, component, component_value from {fct_factor_components}
  where agent_id_hash = '{agent}' and as_of = '{as_of}' and window_days = 7
  order by factor, component;

  -- Its traces that were overridden, unsafe, or not valid in the chain
  select traced_at, trace_id, is_overridden, is_unsafe, is_signature_verified, is_key_registered, is_link_valid
  from {fct_trace_checks}
  where agent_id_hash = '{agent}' and (is_overridden or is_unsafe or not is_chain_valid)
  order by traced_at desc limit 20;

  -- The fleet, day by day
  select as_of, n_agents, n_high_fragility, mean_capacity_score, min_capacity_score
  from {fct_fleet_capacity}
  where window_days = 7 order by as_of;"""


def run_embedded(
    project_dir: Path | None,
    cli_vars: dict[str, Any],
    as_of: str | None,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
    after_run: AfterRun,
) -> None:
    """Score on the embedded PostgreSQL. If it has no traces, the sample is loaded first.

    The as-of is the sample's, unless another is given, so that the numbers are always the same.

    :raises CirisError: an expected failure.
    """
    project_dir = find_project(project_dir)
    state_folder = project_dir / STATE_FOLDER
    server = embedded.start(state_folder)
    embedded.write_profile(state_folder, server)
    project = load_project(project_dir, state_folder, cli_vars=cli_vars)
    if as_of is None and project.variables.get("as_of") is None:
        as_of = SAMPLE["as_of"]

    with connect(project) as connection:
        try:
            n_traces = load_sample(connection, project.source_schema, project.source_tables)
            report(f"Loaded the sample: {plural(n_traces, 'trace')} in {project.source_schema}.")
        except TargetHoldsTraces as held:
            report(f"Using the {plural(held.n, 'trace')} in {held.table}.")
    moment, relations = run(
        project, as_of, full_refresh=full_refresh, allow_rescoring=allow_rescoring, after_run=after_run
    )
    if after_run.for_machines:
        return
    with connect(project) as connection:
        agent = _lowest_agent(connection, relations, moment)
    click.echo(
        NEXT_STEPS.format(
            server=server,
            database=embedded.DATABASE,
            psql=server.psql_command(),
            stop=_stop_command(project_dir),
            dbt=_program("dbt"),
            profiles=shlex.quote(str(_short(state_folder))),
            **{name: relations.places[name] for name in SHOWN_MARTS},
            agent=agent,
            as_of=as_of_time.text(moment),
        )
    )


def _lowest_agent(connection: psycopg.Connection, relations: Relations, moment: datetime) -> str:
    """Return the hash of the agent with the lowest capacity."""
    query = sql.SQL(
        "select agent_id_hash from {} where as_of = %s and window_days = 7"
        " order by capacity_score, agent_id_hash limit 1"
    ).format(relations["fct_capacity_scores"])
    row = connection.execute(query, [moment]).fetchone()
    return printable(row[0]) if row else "AGENT"


def _program(name: str) -> str:
    """Return how to call a program of this environment from here: by name if the path finds one, else by its file."""
    return name if shutil.which(name) else shlex.quote(str(_short(Path(sys.executable).parent / name)))


def _stop_command(project_dir: Path) -> str:
    command = f"{_program('ciris-scoring')} stop"
    if Path.cwd().is_relative_to(project_dir):
        return command
    return f"{command} --project-dir {shlex.quote(str(project_dir))}"


def _short(path: Path) -> Path:
    """Return the path relative to the current folder if it lies below, else unchanged."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
