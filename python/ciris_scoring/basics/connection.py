"""A psycopg connection to the target of a project, and its errors in words for people."""

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from ciris_scoring.basics.errors import DatabaseError, one_line
from ciris_scoring.basics.project import Project

APPLICATION_NAME = "ciris-scoring"
# dbt's sessions use the settings below too: macros/lock/session_settings.sql gets them from for_macros.py.
# Settings that change how values are parsed or printed; Citus workers need them too.
SETTINGS_OF_VALUES: Mapping[str, str] = MappingProxyType(
    {
        "datestyle": "ISO,MDY",
        "intervalstyle": "postgres",
        "extra_float_digits": "1",
        "bytea_output": "hex",
        "standard_conforming_strings": "on",
        "transform_null_equals": "off",
        "array_nulls": "on",
    }
)
# Settings that a session may inherit from role, database or server, and must not depend on. Only the isolation has a
# space in its value.
SETTINGS_NOT_TO_INHERIT: Mapping[str, str] = MappingProxyType(
    {
        **SETTINGS_OF_VALUES,
        "default_transaction_isolation": "read committed",
        "default_transaction_deferrable": "off",
        "default_transaction_read_only": "off",
    }
)
SESSION_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        **SETTINGS_NOT_TO_INHERIT,
        "timezone": "UTC",
        "idle_session_timeout": "0",  # the session idles, with the run's lock, while dbt works
        "client_connection_check_interval": "1s",  # the server ends its query when this process was killed
    }
)
# Citus walks every join order of the coordinator again; workers choose their own.
SETTINGS_ON_CLUSTER: Mapping[str, str] = MappingProxyType({"join_collapse_limit": "1"})
# PostgreSQL's functions and our scratch tables first; views of the sources may need the rest.
SEARCH_PATH = """
pg_catalog.set_config(
    'search_path',
    pg_catalog.concat_ws(
        ', ', 'pg_catalog', 'pg_temp', nullif(pg_catalog.current_setting('search_path'), '')
    ),
    false
)
"""
OLDEST_POSTGRESQL = 15


def one_row(cursor: psycopg.Cursor) -> TupleRow:
    """Return the row of a query that has exactly one."""
    [row] = cursor.fetchall()
    return row


def table_exists(database: psycopg.Connection | psycopg.Cursor, schema: str, table: str) -> bool:
    """Return whether there is a table or view of that name."""
    query = "select to_regclass(format('%%I.%%I', %s::text, %s::text)) is not null"
    return bool(one_row(database.execute(query, [schema, table]))[0])


def schema_right(connection: psycopg.Connection, schema: str, right: str) -> bool | None:
    """Return whether the role has a right on a schema; None when there is no such schema."""
    query = "select has_schema_privilege(to_regnamespace(quote_ident(%s))::oid, %s)"
    has_right: bool | None = one_row(connection.execute(query, [schema, right]))[0]
    return has_right


def has_right(connection: psycopg.Connection, schema: str, table: str, right: str = "select") -> bool:
    """Return whether a table or view exists, in a schema that the role may use, and the role has a right to it."""
    if not schema_right(connection, schema, "usage") or not table_exists(connection, schema, table):
        return False
    quoted = sql.Identifier(schema, table).as_string(connection)
    return bool(one_row(connection.execute("select has_table_privilege(%s, %s)", [quoted, right]))[0])


def where(project: Project) -> str:
    """Name the target's database, for messages."""
    credentials = project.credentials
    return f"database {credentials.database!r} at {credentials.host}:{credentials.port}"


@contextlib.contextmanager
def connect(project: Project) -> Iterator[psycopg.Connection]:
    """Open a connection to the target, in autocommit mode and at UTC, and close it at the end.

    Whatever the database refuses inside the block becomes a DatabaseError too.

    :raises DatabaseError: the server is down, refuses the login, is too old, or fails later on; the database is not
        in UTF8.
    """
    try:
        connection = psycopg.connect(**connection_options(project), autocommit=True)
    except psycopg.OperationalError as error:
        raise _login_error(project, error) from error
    with connection:
        try:
            prepare_session(connection, project)
            _check_encoding(connection, project)
            if connection.info.server_version < OLDEST_POSTGRESQL * 10_000:
                raise DatabaseError(
                    f"{where(project)} is PostgreSQL {connection.info.parameter_status('server_version')}; "
                    f"the project needs {OLDEST_POSTGRESQL} or newer."
                )
            yield connection
        except psycopg.Error as error:
            raise _database_error(project, error) from error


def connection_options(project: Project) -> dict[str, Any]:
    """Return psycopg's options for the target, with the password."""
    credentials = project.credentials
    options = {
        "host": credentials.host,
        "port": credentials.port,
        "user": credentials.user,
        "password": credentials.password,
        "dbname": credentials.database,
        "connect_timeout": credentials.connect_timeout,
        "sslmode": credentials.sslmode,
        "sslcert": credentials.sslcert,
        "sslkey": credentials.sslkey,
        "sslrootcert": credentials.sslrootcert,
        # The connection idles while dbt works; neither side may take it for dead meanwhile.
        "keepalives_idle": credentials.keepalives_idle or 60,
        "application_name": APPLICATION_NAME,
        "client_encoding": "utf8",
    }
    return {name: value for name, value in options.items() if value is not None}


def prepare_session(
    connection: psycopg.Connection, project: Project, settings: Mapping[str, str] = SESSION_SETTINGS
) -> None:
    """Set the session's settings and role."""
    calls = [
        sql.SQL("pg_catalog.set_config({}, {}, false)").format(name, value)
        for name, value in {**settings, **settings_of_cluster(project)}.items()
    ]
    connection.execute(sql.SQL("select {}, {}").format(sql.SQL(", ").join(calls), sql.SQL(SEARCH_PATH)))
    if project.credentials.role:
        connection.execute(sql.SQL("set role {}").format(sql.Identifier(project.credentials.role)))


def settings_of_cluster(project: Project) -> Mapping[str, str]:
    """Return the settings that a session needs on a cluster."""
    return SETTINGS_ON_CLUSTER if project.is_distributed else {}


def _check_encoding(connection: psycopg.Connection, project: Project) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseError(
            f"{where(project)} has the encoding {encoding}, but it must be UTF8: names are in any script.",
            "Copy it with pg_dump and psql into one made by: create database NAME template template0 "
            "encoding 'UTF8'; and name that in the profile.",
        )


# --- Errors in words for people --------------------------------------------------------------------------------------

_LOGIN_HINTS = {
    "password authentication failed": "Correct user and password of the target in {profiles}.",
    "no password supplied": "Set the password of the target in {profiles}.",
    "pg_hba.conf": "The server's pg_hba.conf must admit this user to this database from here.",
    'role "': "Create the role in the server, or correct the user of the target in {profiles}.",
    "does not exist": "Create the database (createdb {database}), or correct dbname in {profiles}.",
    "permission denied for database": "As its owner: grant connect on database {database} to {user};",
}
_UNSET_PASSWORD_HINT = "Set the environment variable that the target in {profiles} takes the password from."
_UNREACHABLE_HINT = "Is PostgreSQL running there? Check host and port of the target in {profiles}."

_HINTS_BY_STATE = {
    "42501": "Grant the right to the role.",
    "53100": "Make room on the database's disk, then run again.",
    "53200": "The server is out of memory: lower the variable ciris_scoring_work_mem, then run again.",
    "57014": "A statement was cancelled or took longer than statement_timeout: raise it, then run again.",
    "40001": "Something else wrote to the same tables meanwhile: run again.",
}
LOST_HINT = "The server was stopped, or the connection to it was cut. Run again when it is back."


def _login_error(project: Project, error: psycopg.OperationalError) -> DatabaseError:
    credentials = project.credentials
    reason = one_line(error).removeprefix("connection failed: ")
    hint = next((hint for text, hint in _LOGIN_HINTS.items() if text in reason), _UNREACHABLE_HINT)
    if "password" in reason and "{{" in credentials.password:  # dbt leaves it so when a variable is not set
        hint = _UNSET_PASSWORD_HINT
    return DatabaseError(
        f"Cannot connect to {where(project)} as {credentials.user!r}: {reason}",
        hint.format(
            profiles=project.profiles_dir / "profiles.yml",
            database=credentials.database,
            user=credentials.user,
        ),
    )


def _database_error(project: Project, error: psycopg.Error) -> DatabaseError:
    """Every statement is, or is in, a transaction, so a failed one leaves nothing behind."""
    state = error.sqlstate or ""
    lost = isinstance(error, psycopg.OperationalError) and (not state or state[:3] in ("57P", "08"))
    hint = LOST_HINT if lost else _HINTS_BY_STATE.get(state, "Nothing was changed by the failed step.")
    return DatabaseError(f"{where(project)} failed: {one_line(error)}", hint)
