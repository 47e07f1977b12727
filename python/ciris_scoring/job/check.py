"""Check whether a database is ready for a run, and what a run would do, without writing to it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, one_row, where
from ciris_scoring.database.dbt import invoke, parse
from ciris_scoring.database.ownership import ownership_faults
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations, relations_of
from ciris_scoring.database.source_schema import TIME_COLUMNS
from ciris_scoring.database.terminal import aligned, plural, printable
from ciris_scoring.errors import CirisError
from ciris_scoring.job.run import empty_sources, resolve_as_of


@dataclass
class Fitness:
    """Facts about a target of dbt, with times as text in ISO 8601. A fact that could not be read is None or missing."""

    place: str
    """Name of the database for messages."""
    role: str | None = None
    server_version: str | None = None
    source_shape: str | None = None
    """``traces`` if the source has whole traces, ``events`` if it has events."""
    sources: list[dict[str, Any]] = field(default_factory=list)
    """Source tables, each with name, table, columns (column, type, read_as, as_type), fault, rows, first and last."""
    parameters: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] | None = None
    """Effect of a run: as_of, published_until, and traces (number of traces without a published score, by run kind)."""
    faults: list[dict[str, str | None]] = field(default_factory=list)
    """Faults that would stop a run, each with message and hint."""
    remarks: list[str] = field(default_factory=list)


def check(project: Project, remarks: Callable[[psycopg.Connection, Relations], list[str]]) -> Fitness:
    """Check the target of a project and return the facts.

    :param remarks: function that returns remarks on the published marts.
    """
    fitness, as_of = Fitness(where(project)), resolve_as_of(project, None)
    manifest = parse(project)
    relations = relations_of(manifest, project.schema)
    try:
        with connect(project, writes=True) as connection, connection.transaction():
            connection.execute("set transaction read only")
            [fitness.role] = one_row(connection.execute("select current_user::text"))
            fitness.server_version = connection.info.parameter_status("server_version")
            faults: list[CirisError] = list(ownership_faults(connection, relations))
            for name, value in _asked(project, "fitness() | tojson").items():
                setattr(fitness, name, value)
            faults += [CirisError(one["fault"]) for one in fitness.sources if one["fault"]]
            fitness.faults = [{"message": fault.message, "hint": fault.hint} for fault in faults]
            if not faults:
                for source in fitness.sources:
                    query = sql.SQL("select count(*), min({0})::text, max({0})::text from {1}")
                    time = sql.Identifier(TIME_COLUMNS[source["name"]])
                    row = one_row(connection.execute(query.format(time, project.source_table(source["name"]))))
                    source.update(zip(("rows", "first", "last"), row, strict=True))
                fitness.run = _run(connection, project, manifest, as_of, fitness.remarks)
                fitness.remarks += [*empty_sources(connection, project, as_of), *remarks(connection, relations)]
    except CirisError as error:
        fitness.faults.append({"message": error.message, "hint": error.hint})
    return fitness


def _run(
    connection: psycopg.Connection, project: Project, manifest: Any, as_of: datetime, remarks: list[str]
) -> dict[str, Any]:
    """Make the checks at the start of a run, and return its effect. Add a remark on events without a mark."""
    models = [node.unique_id for node in manifest.nodes.values() if node.resource_type == "model"]
    # The checks return nothing.
    found = "[(last_publication() or {}).get('published_until'), run_kinds_query(), unmarked_events_query()]"
    until, run_kinds_query, unmarked_events_query = _asked(
        project, f"check_run_of({json.dumps(models)}) or {found} | tojson"
    )
    query = f"""
        select run_kind, count(*) from ({run_kinds_query.replace("%", "%%")}) as traces
        where traced_at < %s and traced_at >= coalesce(%s::timestamptz, '-infinity')
        group by run_kind
    """
    traces: dict[str, int] = dict(connection.execute(query, [as_of, until]).fetchall())
    n_events, n_unmarked = 0, 0
    if unmarked_events_query:
        n_events, n_unmarked = one_row(connection.execute(unmarked_events_query.encode()))
    if n_unmarked:
        remarks.append(
            f"{n_unmarked:,} of {n_events:,} events have no mark of a run kind that can be read, "
            "and a trace without such a mark counts as production."
        )
    return {"as_of": as_of_time.text(as_of), "published_until": until, "traces": traces}


def _asked(project: Project, expression: str) -> Any:
    """Evaluate a Jinja expression that gives JSON, with the project's macros in a read-only session."""
    begin = "{% do begin_transaction() %}{% do run_query('set transaction read only') %}"
    inline = "{% if execute %}" + begin + "{{ " + expression + " }}{% endif %}"
    outcome = invoke(project, ["compile", "--inline", inline], project.cli_vars)
    return json.loads(outcome.results[0].node.compiled_code)


def page(fitness: Fitness) -> str:
    """Return facts as text."""
    lines = []
    for fault in fitness.faults:
        lines += [f"Not ready: {printable(fault['message'] or '')}", *([f"  {fault['hint']}"] if fault["hint"] else [])]
    if run := fitness.run:
        since = f"since {run['published_until']}" if run["published_until"] else "of the whole history"
        counts = ", ".join(f"{n:,} {kind}" for kind, n in sorted(run["traces"].items())) or "none"
        lines.append(f"Ready. A run as of {run['as_of']} would read the traces {since}: {counts}. Nothing was written.")
    lines += [*fitness.remarks, "", fitness.place]
    if fitness.role is not None:
        lines[-1] += f", role {fitness.role!r}, PostgreSQL {fitness.server_version}"
    for source in fitness.sources:
        rows = plural(source["rows"], "row") if "rows" in source else "rows not counted"
        rows += f", {source['first']} to {source['last']}" if source.get("first") else ""
        keys = ("column", "type", "read_as", "as_type")
        cells = [tuple(printable(column[name] or "missing") for name in keys) for column in source["columns"]]
        lines += ["", f"{source['table']}: {rows}", *aligned(("column", "type", "read as", "of type"), cells)]
    values = [(name, str(value)) for name, value in fitness.parameters.items()]
    return "\n".join([*lines, *(["", *aligned(("scoring parameter", "value"), values)] if values else [])])
