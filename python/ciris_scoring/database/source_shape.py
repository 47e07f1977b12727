"""Format of the source: a lens stores either whole traces or their events."""

import psycopg
from psycopg import sql

from ciris_scoring.database.connection import one_row
from ciris_scoring.database.project import Project
from ciris_scoring.database.source_schema import TABLES_OF_SHAPE


def source_shape(connection: psycopg.Connection, project: Project) -> str:
    """Return ``traces`` or ``events``.

    The variable ciris_source decides if it is set. Otherwise the format is ``events`` if only the table of events
    exists.
    """
    wanted = project.variables.get("source")
    if wanted is not None:
        return str(wanted)
    query = """
        select not bool_or(c.relname = %s)
        from pg_class as c
        inner join pg_namespace as n on c.relnamespace = n.oid
        where n.nspname = %s and c.relname in (%s, 'trace_events')
    """
    traces = project.source_tables["covenant_traces"]
    has_only_events = one_row(connection.execute(query, [traces, project.source_schema, traces]))[0]
    return "events" if has_only_events else "traces"


def tables_read(connection: psycopg.Connection, project: Project) -> dict[str, str]:
    """Return the source tables that a run reads: names in the database by names in the project. Some may not exist."""
    names = TABLES_OF_SHAPE[source_shape(connection, project)]
    return {name: project.source_tables.get(name, name) for name in names}


def traced_times(connection: psycopg.Connection, project: Project) -> sql.Composed:
    """Return a subquery of the times of traces, with the column traced_at. If the lens stores events, the few traces
    without an outcome are skipped."""
    if source_shape(connection, project) == "traces":
        table = project.source_table("covenant_traces")
        return sql.SQL('(select "timestamp" as traced_at from {}) as traces').format(table)
    query = sql.SQL("(select ts as traced_at from {} where event_type = 'ACTION_RESULT') as traces")
    return query.format(project.source_table("trace_events"))
