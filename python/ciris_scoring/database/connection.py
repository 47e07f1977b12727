"""psycopg connections to the target of a project, and messages for database errors."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from ciris_scoring.database.project import Project
from ciris_scoring.errors import DatabaseError, one_line

APPLICATION_NAME = "ciris-scoring"
# dbt's transactions use these settings too: macros/run/settings.sql gets them from for_macros.py.
# SETTINGS_OF_VALUES change how values are parsed or printed.
SETTINGS_OF_VALUES: Mapping[str, str] = {
    "datestyle": "ISO,MDY",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "row_security": "off",  # off: the server refuses a query instead of hiding rows from it
}
# pg_catalog is safe: only PostgreSQL itself creates functions, operators and types there.
SEARCH_PATH = "pg_catalog, pg_temp"
# Limits that a transaction may inherit and that would stop a run. Each is removed if the server's version has it and
# the role may set it. After 60 s without traffic the server checks that the client still exists.
LIMITS_NOT_TO_INHERIT: Mapping[str, str] = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "temp_file_limit": "-1",
    "restrict_nonsystem_relation_kind": "",
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "0",
    "tcp_keepalives_count": "0",
    "tcp_user_timeout": "0",
}
# client_connection_check_interval: the server ends the query if this process is killed.
SETTINGS: Mapping[str, str] = {
    "search_path": SEARCH_PATH,
    **SETTINGS_OF_VALUES,
    **LIMITS_NOT_TO_INHERIT,
    "timezone": "UTC",
    "client_connection_check_interval": "1s",
}
"""Settings of each transaction, whatever the role, the database or the server would give it."""
OLDEST_POSTGRESQL = 15
"""Oldest supported version. ``local_settings`` needs has_parameter_privilege, which PostgreSQL 15 introduced."""


class TargetConnection(psycopg.Connection[TupleRow]):
    """Connection whose transactions have the settings of this project. The session keeps none of them, so a pooler may
    give it to another client after each transaction."""

    settings: sql.Composed | None = None

    @contextlib.contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Open a transaction with the settings, or a savepoint in a transaction."""
        begins = self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if begins and self.settings is not None:
                self.execute(self.settings, prepare=False)
            yield transaction


def one_row(cursor: psycopg.Cursor) -> TupleRow:
    """Return the only row of a query.

    :raises ValueError: the query returned no row, or several.
    """
    [row] = cursor.fetchall()
    return row


def table_exists(database: psycopg.Connection | psycopg.Cursor, schema: str, table: str) -> bool:
    """Return whether a table or view exists."""
    query = "select to_regclass(format('%%I.%%I', %s::text, %s::text)) is not null"
    return bool(one_row(database.execute(query, [schema, table]))[0])


def has_right(connection: psycopg.Connection, *relations: tuple[str, str], right: str = "select") -> bool:
    """Return whether tables or views exist, the role may use their schemas, and the role has a right on them.

    :param relations: schema and name of each table or view.
    """
    query = """
        select count(*)
        from unnest(%s::text[], %s::text[]) as wanted (schema_name, relation_name)
        inner join pg_namespace as n on n.nspname = wanted.schema_name
        inner join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.relation_name
        where has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, %s)
    """
    schemas, names = [schema for schema, _ in relations], [name for _, name in relations]
    cursor = connection.cursor(row_factory=tuple_row)
    return one_row(cursor.execute(query, [schemas, names, right])) == (len(relations),)


def where(project: Project) -> str:
    """Return the name of the target's database for messages."""
    credentials = project.credentials
    return f"database {credentials.database!r} at {credentials.host}:{credentials.port}"


@contextlib.contextmanager
def connect(project: Project, *, writes: bool = False) -> Iterator[psycopg.Connection]:
    """Open a connection to the target, in autocommit mode, and close it at the end of the block. Only the transactions
    of :meth:`TargetConnection.transaction` have the settings of this project.

    :param writes: whether the session writes; a standby is then refused.
    :raises DatabaseError: the server is down, refuses the login, or is too old; the database is not in UTF8; the role
        cannot be set; or a statement in the block fails.
    """
    try:
        connection = TargetConnection.connect(**connection_options(project.credentials))
    except psycopg.OperationalError as error:
        raise _login_error(project, error) from error
    with connection, errors_in_words(project):
        if connection.info.server_version < OLDEST_POSTGRESQL * 10_000:
            raise DatabaseError(
                f"{where(project)} is PostgreSQL {connection.info.parameter_status('server_version')}; "
                f"the project needs {OLDEST_POSTGRESQL} or newer."
            )
        prepare(connection, project)
        if writes:
            _refuse_standby(connection, project)
        _check_encoding(connection, project)
        yield connection


@contextlib.contextmanager
def snapshot(connection: psycopg.Connection, *, read_only: bool = True) -> Iterator[None]:
    """Open a transaction in which all queries see the same snapshot of the database."""
    connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, read_only
    try:
        with connection.transaction():
            yield
    finally:
        if not connection.closed:
            connection.isolation_level, connection.read_only = psycopg.IsolationLevel.READ_COMMITTED, False


@contextlib.contextmanager
def errors_in_words(project: Project) -> Iterator[None]:
    """Turn each psycopg.Error inside the block into a DatabaseError with a hint.

    :raises DatabaseError: a statement in the block fails.
    """
    try:
        yield
    except psycopg.Error as error:
        raise _database_error(project, error) from error


def connection_options(credentials: Any) -> dict[str, Any]:
    """Return psycopg's options for dbt's credentials, including the password."""
    same = (
        *("host", "port", "user", "password", "connect_timeout"),
        *("sslmode", "sslcert", "sslkey", "sslrootcert"),
    )
    options = {
        **{name: getattr(credentials, name) for name in same},
        "dbname": credentials.database,
        # The connection is idle while dbt works. Keepalives prevent a firewall from closing it.
        "keepalives_idle": credentials.keepalives_idle or 60,
        "application_name": APPLICATION_NAME,
        "client_encoding": "utf8",
        "autocommit": True,
        "prepare_threshold": None,  # a pooler would give the next transaction a session without the prepared statements
    }
    return {name: value for name, value in options.items() if value is not None}


def prepare(connection: TargetConnection, project: Project, settings: Mapping[str, str] = SETTINGS) -> None:
    """Let the transactions of a connection have settings, and the role of the target if it has one.

    :raises DatabaseError: the role cannot be set.
    """
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = connection.deferrable = False
    role = project.credentials.role
    if role:
        try:
            with super(TargetConnection, connection).transaction():
                connection.execute(f"set local role {role}", prepare=False)  # not quoted, as in dbt
        except psycopg.Error as error:
            raise DatabaseError(
                f"The role {role!r} of target {project.target_name!r} cannot be set: {one_line(error)}",
                "dbt puts the role into SQL as it is written, so a name with capitals or hyphens needs quotes: "
                f"""role: '"Score-er"'. The role must exist, and as a superuser: grant ROLE to """
                f"{project.credentials.user};",
            ) from error
    connection.settings = local_settings(settings, role)


def local_settings(settings: Mapping[str, str], role: str | None = None) -> sql.Composed:
    """Return statements that set a role, and settings as far as the server has them, until the end of the transaction.

    They run before the search path is set, so every name and operator in them is qualified by its schema.
    """
    pairs = sql.SQL(", ").join(sql.SQL("({}, {})").format(name, value) for name, value in settings.items())
    return sql.SQL("{}{}").format(
        sql.SQL(f"set local role {role}; " if role else ""),
        sql.SQL("""
            select pg_catalog.set_config(wanted.name, wanted.value, true)
            from (values {}) as wanted (name, value)
            where
                pg_catalog.current_setting(wanted.name, true) is not null
                and (
                    wanted.name operator(pg_catalog.<>) 'temp_file_limit'
                    or pg_catalog.has_parameter_privilege(wanted.name, 'set')
                )
        """).format(pairs),
    )


def settings_text(others: Mapping[str, str], role: str | None) -> str:
    """Return :func:`local_settings` as text, with other settings, for the macros."""
    return local_settings({**SETTINGS, **others}, role).as_string(None)


def _refuse_standby(connection: psycopg.Connection, project: Project) -> None:
    if one_row(connection.execute("select pg_catalog.pg_is_in_recovery()")) == (True,):
        raise DatabaseError(
            f"{where(project)} is a standby, which can only be read.",
            f"Connect to the primary: correct host and port of the target in {project.profiles_dir / 'profiles.yml'}.",
        )


def _check_encoding(connection: psycopg.Connection, project: Project) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseError(
            f"{where(project)} has the encoding {encoding}, but it must be UTF8, because names may be in any script.",
            "Create a database with: create database NAME template template0 encoding 'UTF8'; Copy this database into "
            "it with pg_dump and psql, and set dbname in the profile to NAME.",
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

CONNECTIONS_BESIDE_THREADS = 3
"""Connections of a run in addition to those of dbt's threads: for the lock, for dbt's hooks, and to find out what the
run waits for."""
_CONNECTIONS_HINT = (
    f"A run needs as many connections as the target has threads, plus {CONNECTIONS_BESIDE_THREADS}. Raise the limit "
    "(alter role ROLE connection limit N; alter database DATABASE connection limit N; max_connections of the server), "
    "end other sessions, or lower threads in the profile; then run again."
)
_TEMP_FILE_HINT = (
    "A superuser can raise the limit for the role: alter role ROLE set temp_file_limit = -1; or grant set on parameter "
    "temp_file_limit to ROLE; then run again."
)
_ROW_SECURITY_HINT = (
    "Scores need all rows, so row-level security must not apply to the role. As a superuser: alter role ROLE "
    "bypassrls; or let the run read a view that the owner of the table created."
)
# Texts in error messages of the server, each with the setting that caused the error.
_LIMITS = {
    "statement timeout": "statement_timeout",
    "idle-in-transaction timeout": "idle_in_transaction_session_timeout",
    "idle-session timeout": "idle_session_timeout",
    "transaction timeout": "transaction_timeout",
}
_RIGHTS_HINT = (
    "The role needs usage of the source schema and select on its tables, create on the database or on the schemas of "
    "the project, and temporary on the database: grant it, then run again."
)
_HINTS_BY_TEXT = {
    "permission denied for": _RIGHTS_HINT,
    **{
        text: f"The setting {name} ended this session or statement: raise it for the role, then run again."
        for text, name in _LIMITS.items()
    },
    **dict.fromkeys(
        ("too many connections for", "too many clients already", "remaining connection slots are reserved"),
        _CONNECTIONS_HINT,
    ),
    "lock timeout": "Another session has locked a relation of the project for longer than ciris_lock_wait_seconds. "
    "pg_stat_activity shows sessions with an open transaction (xact_start): end it, then run again.",
    "temp_file_limit": _TEMP_FILE_HINT,
    "row-level security policy": _ROW_SECURITY_HINT,
    "query_wait_timeout": "The pooler has no free server connection: raise its default_pool_size (pool_size) to the "
    "number of threads plus 4 or more, then run again.",
    "query_timeout": "The pooler's setting query_timeout limits queries: raise it, then run again.",
    "client_idle_timeout": "The pooler's setting client_idle_timeout ends idle sessions: raise it, then run again.",
    "conflict with recovery": "The standby cancelled the query: raise max_standby_streaming_delay or set "
    "hot_standby_feedback = on there, then try again.",
}
_HINTS_BY_STATE = {
    "42501": _RIGHTS_HINT,
    "53100": "Make room on the database's disk, then run again.",
    "53200": "The server is out of memory: lower the variable ciris_scoring_work_mem, then run again.",
    "53400": _TEMP_FILE_HINT,
    "57014": "Somebody cancelled the statement, or a pooler did (query_timeout): run again.",
    "42P10": "covenant_traces needs the primary key (trace_id, timestamp, agent_id_hash), so that an agent cannot "
    "overwrite a trace of another agent, then load again.",
    "40001": "Something else wrote to the same tables meanwhile: run again.",
}
LOST_HINT = "The server was stopped, or the connection to it was cut. Run again when it is back."


def _login_error(project: Project, error: psycopg.OperationalError) -> DatabaseError:
    credentials = project.credentials
    reason = one_line(error).removeprefix("connection failed: ")
    found = (hint for text, hint in _LOGIN_HINTS.items() if text in reason)
    hint = hint_of(reason) or next(found, _UNREACHABLE_HINT)
    if "password" in reason and "{{" in credentials.password:  # the variable of the password is not set
        hint = _UNSET_PASSWORD_HINT
    return DatabaseError(
        f"Cannot connect to {where(project)} as {credentials.user!r}: {reason}",
        hint.format(
            profiles=project.profiles_dir / "profiles.yml",
            database=credentials.database,
            user=credentials.user,
        ),
    )


def hint_of(message: str) -> str | None:
    """Return the remedy if a message names a setting of the server or of a pooler, else None."""
    return next((hint for text, hint in _HINTS_BY_TEXT.items() if text in message), None)


def _database_error(project: Project, error: psycopg.Error) -> DatabaseError:
    """Return a DatabaseError. Every statement is in a transaction, so a failed statement changes nothing."""
    state = error.sqlstate or ""
    lost = isinstance(error, psycopg.OperationalError) and (not state or state[:3] in ("57P", "08"))
    other = LOST_HINT if lost else _HINTS_BY_STATE.get(state, "Nothing was changed by the failed step.")
    return DatabaseError(f"{where(project)} failed: {one_line(error)}", hint_of(str(error)) or other)
