"""Run dbt under the lock of the target."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import LOST_HINT, connect, one_row, table_exists
from ciris_scoring.database.ownership import ownership_faults
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.database.run_lock import run_lock
from ciris_scoring.database.source_shape import tables_read, traced_times
from ciris_scoring.database.terminal import progress
from ciris_scoring.database.variables import PREFIX
from ciris_scoring.errors import CirisError, DbtFailed, InputError
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.run_log import RunRecord

Step = Callable[[psycopg.Connection, Relations], None]
"""Step of a command before or after the run, with a connection to the target."""


def run(
    project: Project,
    as_of: str | None,
    record: RunRecord,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
    before: Step | None = None,
) -> Relations:
    """Score the fleet and publish the scores. The log of the run is read into ``record``, also after an error.

    :param before: step that reads the last publication, after the check of its owners.
    :raises CirisError: the run fails or is refused.
    """
    record.as_of = moment = resolve_as_of(project, as_of)
    build = DbtBuild(project)
    relations = build.relations
    with connect(project, writes=True) as lock, run_lock(lock, project.schema):
        with connect(project) as connection, connection.transaction():
            # Another role's object could run code as this role.
            for fault in ownership_faults(connection, relations):
                raise fault
            if before is not None:
                before(connection, relations)
        progress(f"Scoring {project.source_schema} into {relations.marts_schema} as of {as_of_time.text(moment)}.")
        variables = run_variables(moment, record) | ({"allow_rescoring": True} if allow_rescoring else {})
        try:
            _build(lock, build, variables, full_refresh)
        finally:
            with contextlib.suppress(CirisError), connect(project) as connection, connection.transaction():
                record.read(connection, relations)
    return relations


def run_variables(moment: datetime, record: RunRecord) -> dict[str, Any]:
    """Return the dbt variables of a single run, without their prefix."""
    row = {"id": str(record.run_id), "command": record.command}
    return {"as_of": as_of_time.text(moment), "run_record": row}


def _build(lock: psycopg.Connection, build: DbtBuild, variables: dict[str, Any], full_refresh: bool) -> None:
    """Run dbt once. If the server closed the connection of the lock, the error's hint says so."""
    try:
        build.build(variables, full_refresh)
    except DbtFailed as error:
        try:
            lock.execute("select")
        except psycopg.OperationalError:
            raise DbtFailed(error.message, LOST_HINT) from error
        raise


def resolve_as_of(project: Project, given: str | None) -> datetime:
    """Return the as-of of a run: ``--as-of``, or the variable ``ciris_as_of``, or now, rounded down to a period end.

    :raises InputError: the option and the variable are both given, or the time is malformed, in the future, or before
        ``ciris_traces_from``.
    """
    variable = project.variables.get("as_of")
    if given is not None and project.cli_vars.get(f"{PREFIX}as_of") is not None:
        raise InputError("The as-of is given twice, by --as-of and in --vars.", "Leave one of them out.")
    value, name = (variable, "The variable ciris_as_of") if given is None else (given, "--as-of")
    period = project.variables.get("scoring_period", "day")
    earliest = as_of_time.traces_from(project.variables)
    return as_of_time.resolve(value, period, datetime.now(UTC), name, earliest)


def empty_sources(connection: psycopg.Connection, project: Project, moment: datetime) -> list[str]:
    """Return a remark about each empty source table, with the effect on a run."""
    schema, tables = project.source_schema, tables_read(connection, project)
    remarks = []
    query = sql.SQL("select exists (select 1 from {} where traced_at < {})")
    traces = query.format(traced_times(connection, project), sql.Literal(moment))
    if one_row(connection.execute(traces)) == (False,):
        place = f"{schema}.{next(iter(tables.values()))}"
        remarks.append(f"Note: {place} holds no trace before {as_of_time.text(moment)}, so there is nothing to score.")
    empty = {
        "wbd_deferrals": "no deferral, so the quality of deferrals counts as 1",
        "covenant_public_keys": "no key, so no signature counts as made with a registered key",
    }
    for name, meaning in empty.items():
        if name not in tables or not table_exists(connection, schema, tables[name]):
            continue
        rows = sql.SQL("select exists (select 1 from {})").format(sql.Identifier(schema, tables[name]))
        if one_row(connection.execute(rows)) == (False,):
            remarks.append(f"Note: {schema}.{tables[name]} holds {meaning}.")
    return remarks
