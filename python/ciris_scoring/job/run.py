"""Run dbt under the lock of the target, then show the fleet table."""

import time
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import (
    LOST_HINT,
    connect,
    one_row,
    table_exists,
)
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.database.run_lock import run_lock
from ciris_scoring.database.source_shape import tables_read, traced_times
from ciris_scoring.database.terminal import progress as report
from ciris_scoring.database.terminal import say
from ciris_scoring.database.variables import PREFIX
from ciris_scoring.errors import DbtFailed, InputError
from ciris_scoring.job.after_run import AfterRun
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.run_log import RunRecord, logged
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.quality import why_unscored


def run(
    project: Project,
    as_of: str | None,
    *,
    full_refresh: bool,
    allow_rescoring: bool,
    after_run: AfterRun | None = None,
) -> datetime:
    """Score the fleet, then perform the actions of ``after_run``: by default, print the fleet table. Return the
    as-of."""
    after_run = after_run or AfterRun(RunRecord("full_refresh" if full_refresh else "run"))
    moment = resolve_as_of(project, as_of)

    started = time.monotonic()
    record = after_run.record
    record.as_of = moment
    build = DbtBuild(project)
    relations = build.relations
    with connect(project, writes=True) as connection:
        with logged(connection, project, relations, record):
            after_run.read_alerts(connection, relations)
            with run_lock(connection, project.schema):
                place = relations.marts_schema
                report(f"Scoring {project.source_schema} into {place} as of {as_of_time.text(moment)}.")
                variables = run_variables(moment, record)
                if allow_rescoring:
                    variables["allow_rescoring"] = True
                _build(connection, build, variables, full_refresh)
        after_run.show_fleet(connection, relations, moment)
        remarks = [*why_unscored(Marts(connection, relations)), *empty_sources(connection, project, moment)]
        for line in remarks + _late_remarks(connection, relations):
            say(line)
        after_run.write_report(connection, relations)
    report(f"Done in {time.monotonic() - started:.0f} s.")
    return moment


def run_variables(moment: datetime, record: RunRecord) -> dict[str, Any]:
    """Return the dbt variables of a single run, without their prefix."""
    row = {"id": str(record.run_id), "command": record.command}
    return {"as_of": as_of_time.text(moment), "run_record": row}


def _build(connection: psycopg.Connection, build: DbtBuild, variables: dict[str, Any], full_refresh: bool) -> None:
    """Run dbt once. If the server closed the connection, the error's hint says so."""
    try:
        build.build(variables, full_refresh)
    except DbtFailed as error:
        try:
            connection.execute("select")
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


def _late_remarks(connection: psycopg.Connection, relations: Relations) -> list[str]:
    """Return a remark on data that arrived after its scores were final, with the command that scores it."""
    query = sql.SQL(
        """
        select
            coalesce(sum(n) filter (where issue = 'late_trace'), 0)::bigint,
            coalesce(sum(n) filter (where issue = 'late_outcome'), 0)::bigint,
            min(first_as_of),
            max(last_as_of)
        from {}
        """
    ).format(relations["fct_data_quality"])
    n_traces, n_outcomes, first, last = one_row(connection.execute(query))
    if first is None:
        return []
    first, last = as_of_time.text(first), as_of_time.text(last)
    return [
        f"Note: the scores as of {first} to {last} would be different if they were computed now (traces that came "
        f"late: {n_traces:,}; traces with an outcome or another event that came late: {n_outcomes:,}). To score these "
        "and all later ones again: "
        f"ciris-scoring run --allow-rescoring --vars 'ciris_rescore_from: {first}'"
    ]
