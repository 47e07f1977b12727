"""Check the rights that a run needs in the database."""

from collections.abc import Iterator

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import CONNECTIONS_BESIDE_THREADS, one_row, schema_right, where
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.source_shape import tables_read


def missing_rights(connection: psycopg.Connection, project: Project, relations: Relations) -> Iterator[DatabaseError]:
    """Yield an error for each right that the role lacks to read the sources, to write the project's schemas or to open
    connections. Macros report source tables that do not exist."""
    role, database = one_row(connection.execute("select current_user, current_database()"))

    def missing(right: str, statement: str) -> DatabaseError:
        return DatabaseError(
            f"Role {role!r} has no right to {right} in {where(project)}.",
            f"As the owner or a superuser: {statement}",
        )

    def quoted(*names: str) -> str:
        return sql.Identifier(*names).as_string(connection)

    source = project.source_schema
    usage = schema_right(connection, source, "usage")
    if usage is False:
        grant = f"grant usage on schema {quoted(source)} to {quoted(role)}"
        yield missing(f"use schema {source}", grant)
    query = """
        select wanted.name, has_table_privilege(c.oid, 'select')
        from unnest(%s::text[]) as wanted (name)
        inner join pg_namespace as n on n.nspname = %s
        inner join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.name
    """
    tables = [*tables_read(connection, project).values()] if usage else []
    readable: dict[str, bool] = dict(connection.execute(query, [tables, source]).fetchall())
    for table in tables:
        if readable.get(table) is False:
            grant = f"grant select on {quoted(source, table)} to {quoted(role)}"
            yield missing(f"read table {source}.{table}", grant)
    for schema in relations.schemas:
        may_create = schema_right(connection, schema, "create")
        if may_create is False:
            grant = f"grant usage, create on schema {quoted(schema)} to {quoted(role)}"
            yield missing(f"create tables in schema {schema}", grant)
        if may_create is None and not _database_right(connection, "create"):
            grant = f"create schema {quoted(schema)} authorization {quoted(role)}"
            yield missing(f"create schema {schema}", grant)
    if not _database_right(connection, "temporary"):
        grant = f"grant temporary on database {quoted(database)} to {quoted(role)}"
        yield missing("create temporary tables", grant)
    yield from _connection_limits(connection, project.credentials.threads)


def _connection_limits(connection: psycopg.Connection, threads: int) -> Iterator[DatabaseError]:
    """Yield an error for each connection limit of the user or of the database that is too low for a run."""
    needed = threads + CONNECTIONS_BESIDE_THREADS
    query = """
        select limits.place, limits.allowed
        from pg_roles as users
        cross join pg_database as databases
        cross join lateral (
            values
            (format('role %%I', users.rolname), users.rolconnlimit),
            (format('database %%I', databases.datname), databases.datconnlimit)
        ) as limits (place, allowed)
        where
            users.rolname = session_user and not users.rolsuper and databases.datname = current_database()
            and limits.allowed between 0 and %s
    """
    for place, allowed in connection.execute(query, [needed - 1]).fetchall():
        yield DatabaseError(
            f"The connection limit of {place} is {allowed}, but a run needs {needed} connections: {threads} for the "
            f"threads of the target, and {CONNECTIONS_BESIDE_THREADS} more.",
            f"As a superuser: alter {place} connection limit {needed}; or lower threads in the profile.",
        )


def _database_right(connection: psycopg.Connection, right: str) -> bool:
    query = "select has_database_privilege(current_database(), %s)"
    return bool(one_row(connection.execute(query, [right]))[0])
