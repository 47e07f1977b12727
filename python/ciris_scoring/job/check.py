"""Check whether a database is ready for a run, and what a run would do, without writing to it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.basics.connection import SEARCH_PATH, connect, has_right, one_row, where
from ciris_scoring.basics.dbt import invoke, parse
from ciris_scoring.basics.errors import CirisError
from ciris_scoring.basics.ownership import ownership_faults
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.relations import Relations, relations_of
from ciris_scoring.basics.source_schema import RUN_KINDS
from ciris_scoring.basics.source_shape import traced_times
from ciris_scoring.basics.terminal import aligned, plural, printable
from ciris_scoring.job.rights import missing_rights
from ciris_scoring.job.run import empty_sources, resolve_as_of

READ_ONLY = {"default_transaction_read_only": "on"}
TIME_COLUMNS = {
    "covenant_traces": "timestamp",
    "wbd_deferrals": "created_at",
    "covenant_public_keys": "created_at",
    "covenant_trace_batches": "batch_timestamp",
    "trace_events": "ts",
    "federation_keys": "valid_from",
    "federation_revocations": "effective_at",
    "accord_public_keys": "created_at",
}
"""Time column of each source table."""
# Measured on 2 cores (docs/measuring.md, "Benchmark"): the fixed time of a run, and the time per trace.
SECONDS_OF_A_RUN = 12.0
SECONDS_OF_A_TRACE = 4e-5


@dataclass
class Fitness:
    """Facts about a target of dbt, with times as text in ISO 8601. A fact that could not be read is None or missing."""

    place: str
    """Name of the database for messages."""
    role: str | None = None
    server_version: str | None = None
    encoding: str | None = None
    source_shape: str | None = None
    """``traces`` if the lens stores whole traces, ``events`` if it stores events."""
    sources: list[dict[str, Any]] = field(default_factory=list)
    """Source tables, each with name, table, columns (column, type, read_as, as_type), fault, rows, first and last."""
    parameters: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] | None = None
    """Effect of a run: as_of, published_until, traces (number of traces without a published score that the run would
    count), not_scored (number of other traces by run kind, which the run would not count), newest_trace_days
    (age of the newest trace at the as-of; None without traces), and seconds (estimated duration)."""
    faults: list[dict[str, str | None]] = field(default_factory=list)
    """Faults that would stop a run, each with message and hint."""
    remarks: list[str] = field(default_factory=list)

    def add_fault(self, message: str, hint: str | None = None) -> None:
        """Add a fault that would stop a run."""
        self.faults.append({"message": message, "hint": hint})


def check(project: Project) -> Fitness:
    """Check the target of a project and return the facts."""
    fitness = Fitness(where(project))
    moment = resolve_as_of(project, None)
    manifest = parse(project)
    relations = relations_of(manifest, project.schema)
    try:
        with connect(project, writes=True) as connection:
            connection.execute("set default_transaction_read_only to on")
            _look(connection, project, manifest, relations, moment, fitness)
    except CirisError as error:
        fitness.add_fault(error.message, error.hint)
    return fitness


def _look(
    connection: psycopg.Connection,
    project: Project,
    manifest: Any,
    relations: Relations,
    moment: datetime,
    fitness: Fitness,
) -> None:
    [fitness.role] = one_row(connection.execute("select current_user::text"))
    fitness.server_version = connection.info.parameter_status("server_version")
    fitness.encoding = connection.info.parameter_status("server_encoding")
    for fault in (*missing_rights(connection, project, relations), *ownership_faults(connection, relations)):
        fitness.add_fault(fault.message, fault.hint)
    found = _asked(project, "fitness() | tojson")
    fitness.source_shape, fitness.sources = found["source_shape"], found["sources"]
    fitness.parameters, fitness.remarks = found["parameters"], found["remarks"]
    for source in fitness.sources:
        if source["fault"]:
            fitness.add_fault(source["fault"])
    if fitness.faults:
        return
    # Repeat the checks that a run makes at its start. Faults of the sources were reported above.
    models = [node.unique_id for node in manifest.nodes.values() if node.resource_type == "model"]
    newest = "(last_publication() or {}).get('published_until') | tojson"
    published_until = _asked(project, f"check_run_of({json.dumps(models)}) or {newest}")
    for source in fitness.sources:
        source.update(_rows(connection, project, source["name"]))
    fitness.run = _plan(connection, project, relations, moment, published_until, found["run_kinds_query"])
    fitness.remarks += empty_sources(connection, project, moment)


def _asked(project: Project, expression: str) -> Any:
    """Evaluate a Jinja expression that gives JSON, with the project's macros in a read-only session."""
    safe_path = "{% do run_query('set search_path to " + SEARCH_PATH + "') %}"
    inline = "{% if execute %}" + safe_path + "{{ " + expression + " }}{% endif %}"
    outcome = invoke(project, ["compile", "--inline", inline], project.cli_vars, settings=READ_ONLY)
    return json.loads(outcome.results[0].node.compiled_code)


def _rows(connection: psycopg.Connection, project: Project, name: str) -> dict[str, Any]:
    """Return the number of rows of a source table, and its first and last time as text, which may be infinite."""
    query = sql.SQL("select count(*), min({0})::text, max({0})::text from {1}").format(
        sql.Identifier(TIME_COLUMNS[name]), project.source_table(name)
    )
    return dict(zip(("rows", "first", "last"), one_row(connection.execute(query)), strict=True))


def _plan(
    connection: psycopg.Connection,
    project: Project,
    relations: Relations,
    moment: datetime,
    published_until: str | None,
    run_kinds_query: str,
) -> dict[str, Any]:
    query = f"""
        select run_kind, count(*)
        from ({run_kinds_query.replace("%", "%%")}) as traces
        where traced_at < %s and traced_at >= coalesce(%s::timestamptz, '-infinity')
        group by run_kind
    """
    of_kinds: dict[str, int] = dict(connection.execute(query, [moment, published_until]).fetchall())
    scored = project.variables["scored_run_kinds"]
    n_traces = sum(of_kinds.get(kind, 0) for kind in {*scored})
    newest = sql.SQL(
        "select extract(epoch from %(as_of)s - max(traced_at)) / 86400 from {} where traced_at < %(as_of)s"
    ).format(traced_times(connection, project))
    [days] = one_row(connection.execute(newest, {"as_of": moment}))
    last = None if published_until is None else _seconds_of_last_increment(connection, relations)
    return {
        "as_of": as_of_time.text(moment),
        "published_until": published_until,
        "traces": n_traces,
        "not_scored": {kind: of_kinds.get(kind, 0) for kind in RUN_KINDS if kind not in scored},
        "newest_trace_days": None if days is None or not days.is_finite() else round(float(days), 1),
        "seconds": round(last or SECONDS_OF_A_RUN + n_traces * SECONDS_OF_A_TRACE),
    }


def _seconds_of_last_increment(connection: psycopg.Connection, relations: Relations) -> float | None:
    if not has_right(connection, relations.places["int_runs"]):
        return None
    query = sql.SQL(
        """
        select extract(epoch from ended_at - started_at)::float8
        from {}
        where outcome = 'published' and command = 'run' and not is_full_refresh and final_until is not null
        order by started_at desc
        limit 1
        """
    ).format(relations["int_runs"])
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def as_json(fitness: Fitness) -> str:
    """Return facts and exit code as a JSON object."""
    return json.dumps({"exit_code": int(bool(fitness.faults)), **asdict(fitness)}, indent=2, ensure_ascii=False)


def page(fitness: Fitness) -> str:
    """Return facts as text."""
    lines = []
    for fault in fitness.faults:
        lines.append(f"Not ready: {printable(fault['message'] or '')}")
        if fault["hint"]:
            lines.append(f"  {fault['hint']}")
    if fitness.run is not None:
        silent_days = fitness.parameters["silent_days"]
        lines.append(f"Ready. {_of_run(fitness.run, silent_days)} Nothing was written.")
    lines += [*fitness.remarks, "", fitness.place]
    if fitness.role is not None:
        lines[-1] += f", role {fitness.role!r}, PostgreSQL {fitness.server_version}, {fitness.encoding}"
    if fitness.source_shape is not None:
        lines.append(f"The lens stores {fitness.source_shape}.")
    for source in fitness.sources:
        rows = plural(source["rows"], "row") if "rows" in source else "rows not counted"
        if source.get("first"):
            rows += f", {source['first']} to {source['last']}"
        cells = [
            (printable(column["column"]), printable(column["type"] or "missing"), _read_as(column))
            for column in source["columns"]
        ]
        lines += ["", f"{source['table']}: {rows}", *aligned(("column", "type", "read as"), cells)]
    if fitness.parameters:
        values = [(name, str(value)) for name, value in fitness.parameters.items()]
        lines += ["", *aligned(("scoring parameter", "value"), values)]
    return "\n".join(lines)


def _of_run(run: Mapping[str, Any], silent_days: int) -> str:
    # The newest trace counts as old if its age is silent_days or more, as in the alert silent.
    if run["published_until"] is None:
        what = f"A run would score {plural(run['traces'], 'trace')} of the whole history"
    elif run["traces"]:
        what = f"A run would score {plural(run['traces'], 'trace')} after {run['published_until']}"
    else:
        what = f"A run would find no trace after {run['published_until']}"
    said = f"{what}, as of {run['as_of']}, in about {run['seconds']:,} s."
    skipped = [f"{n:,} {kind}" for kind, n in run["not_scored"].items() if n]
    if skipped:
        said += f" It would not score traces of other run kinds (ciris_scored_run_kinds): {', '.join(skipped)}."
    days = run["newest_trace_days"]
    if days is not None and days >= silent_days:
        age = plural(round(days), "day")
        said += f" The newest trace is {age} older than this as-of: check whether traces still arrive."
    return said


def _read_as(column: dict[str, Any]) -> str:
    name = "" if column["read_as"] == column["column"] else f"{column['read_as']}, "
    return f"{name}{column['as_type']}"
