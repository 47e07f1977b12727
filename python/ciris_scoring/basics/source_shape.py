"""Shape of the source: a lens stores either whole traces or their events."""

from collections.abc import Mapping

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import table_exists
from ciris_scoring.basics.errors import InputError, shown
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.source_schema import ENGINE_TABLES, SOURCE_TABLES

TRACES, EVENTS = "traces", "events"
TABLES_OF_SHAPE: Mapping[str, Mapping[str, bool]] = {
    TRACES: dict.fromkeys(SOURCE_TABLES, True),
    EVENTS: {
        **{name: name == "trace_events" for name in ENGINE_TABLES},
        "wbd_deferrals": False,
        "covenant_trace_batches": False,
    },
}
"""Source tables of each shape, and whether a run requires them."""


def source_shape(connection: psycopg.Connection, project: Project) -> str:
    """Return TRACES or EVENTS.

    The variable ciris_source decides if it is set. Otherwise it is EVENTS if only the table of events exists, else
    TRACES.

    :raises InputError: the variable has another value.
    """
    wanted = project.variables.get("source")
    if wanted is not None:
        if wanted not in TABLES_OF_SHAPE:
            raise InputError(
                f"Variable ciris_source is {shown(wanted)}, but must be {' or '.join(TABLES_OF_SHAPE)}.",
                "Correct it, or leave it out.",
            )
        return str(wanted)
    tables = (project.source_tables["covenant_traces"], "trace_events")
    has_traces, has_events = (table_exists(connection, project.source_schema, table) for table in tables)
    return EVENTS if has_events and not has_traces else TRACES


def tables_read(connection: psycopg.Connection, project: Project) -> dict[str, str]:
    """Return the source tables that a run reads: names in the database by names in the project. Some may not exist."""
    names = TABLES_OF_SHAPE[source_shape(connection, project)]
    return {name: project.source_tables.get(name, name) for name in names}


def traced_times(connection: psycopg.Connection, project: Project) -> sql.Composed:
    """Return a subquery of the times of traces, with the column traced_at.

    With events, a trace without an outcome is not counted; there are very few.
    """
    if source_shape(connection, project) == TRACES:
        table = project.source_table("covenant_traces")
        return sql.SQL('(select "timestamp" as traced_at from {}) as traces').format(table)
    query = sql.SQL("(select ts as traced_at from {} where event_type = 'ACTION_RESULT') as traces")
    return query.format(project.source_table("trace_events"))
