"""The dbt profile and project as dbt itself reads them, and a psycopg connection made from them.

dbt is imported inside the functions: it takes a second, which `--help` should not cost.
"""

import contextlib
import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql

from ciris_scoring.errors import DatabaseError, InputError, ProfileError, RunInProgress

APPLICATION_NAME = "ciris-scoring"
SESSION_SETTINGS = """
set timezone to 'UTC';
set idle_session_timeout to 0;  -- the session idles, with the run's lock, while dbt works
set client_connection_check_interval to '1s';  -- the server ends the session's query when this process was killed
"""
OLDEST_POSTGRESQL = 15
SOURCE_TABLES = ("covenant_traces", "wbd_deferrals", "covenant_public_keys", "covenant_trace_batches")


@dataclass(frozen=True)
class Project:
    """A dbt project with a target to build it in."""

    project_dir: Path
    profiles_dir: Path
    profile_name: str
    target_name: str
    credentials: Any = field(repr=False)
    """dbt's PostgresCredentials."""
    cli_vars: Mapping[str, Any]
    """Variables given on the command line."""
    variables: Mapping[str, Any]
    """Those of dbt_project.yml, overridden by those of the command line."""

    @property
    def schema(self) -> str:
        """Schema of the marts."""
        return self.credentials.schema

    @property
    def source_schema(self) -> str:
        """Schema of the source tables."""
        return str(self.variables.get("source_schema", "cirislens"))

    @property
    def source_tables(self) -> dict[str, str]:
        """Name of each source table in the database, by its own name."""
        return {name: str(self.variables.get(f"{name}_table", name)) for name in SOURCE_TABLES}


def parse_vars(text: str | None) -> dict[str, Any]:
    """Read the argument of ``--vars``: a YAML dictionary, as dbt takes it.

    :raises InputError: it is something else.
    """
    hint = "Write a YAML dictionary, for example --vars '{scoring_period: hour}'."
    try:
        variables = yaml.safe_load(text or "{}")
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that there is not
        reason = " ".join(str(error).split())
        raise InputError(f"--vars is not YAML: {text!r} ({reason})", hint) from error
    if not isinstance(variables, dict):
        raise InputError(f"--vars must be a dictionary, not {text!r}.", hint)
    return variables


def find_project(project_dir: Path | None = None) -> Path:
    """Return the folder of the dbt project.

    :param project_dir: default: this folder, or the nearest one above it with a dbt_project.yml.
    :raises ProfileError: there is none.
    """
    from dbt.cli.resolvers import default_project_dir

    folder = (project_dir or default_project_dir()).resolve()
    if not (folder / "dbt_project.yml").is_file():
        raise ProfileError(
            f"There is no dbt_project.yml in {folder}.",
            "Run the command in the project's folder, or name it with --project-dir.",
        )
    return folder


def load_project(
    project_dir: Path | None = None,
    profiles_dir: Path | None = None,
    target: str | None = None,
    cli_vars: Mapping[str, Any] | None = None,
) -> Project:
    """Find the project and the profile the way dbt does, and read both with dbt's loader.

    :param project_dir: see :func:`find_project`.
    :param profiles_dir: default: DBT_PROFILES_DIR, this folder if it has a profiles.yml, ~/.dbt.
    :param target: default: the profile's own.
    :raises ProfileError: one of them is missing, cannot be read, or is not for PostgreSQL.
    """
    from dbt.cli.resolvers import default_profiles_dir
    from dbt.config.runtime import load_profile
    from dbt.config.runtime import load_project as load_dbt_project
    from dbt.flags import set_from_args
    from dbt_common.clients.system import get_env
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    cli_vars = dict(cli_vars or {})
    project_dir = find_project(project_dir)
    profiles_dir = profiles_dir or Path(os.environ.get("DBT_PROFILES_DIR") or default_profiles_dir())
    profiles_dir = profiles_dir.resolve()
    if not (profiles_dir / "profiles.yml").is_file():
        raise ProfileError(
            f"There is no dbt profile: {profiles_dir / 'profiles.yml'} does not exist.",
            f"Copy {project_dir / 'profiles.yml.example'} to {profiles_dir / 'profiles.yml'} and fill in your "
            "PostgreSQL, or try the sample without one: ciris-scoring run --embedded",
        )
    try:
        set_invocation_context(get_env())
        set_from_args(Namespace(profiles_dir=str(profiles_dir), project_dir=str(project_dir)), None)
        profile = load_profile(str(project_dir), cli_vars, target_override=target)
        project = load_dbt_project(str(project_dir), False, profile, cli_vars)
    except DbtBaseException as error:
        reason = one_line(getattr(error, "msg", error))
        raise ProfileError(
            f"dbt cannot use the profile in {profiles_dir} or the project in {project_dir}: {reason}",
            f"{project_dir / 'profiles.yml.example'} shows what a profile holds; `dbt debug` checks it.",
        ) from error
    if profile.credentials.type != "postgres":
        raise ProfileError(
            f"Target {profile.target_name!r} of profile {profile.profile_name!r} is for "
            f"{profile.credentials.type}; the project needs PostgreSQL.",
            "Name another target with --target.",
        )
    project_vars = project.vars.to_dict()
    return Project(
        project_dir=project_dir,
        profiles_dir=profiles_dir,
        profile_name=profile.profile_name,
        target_name=profile.target_name,
        credentials=profile.credentials,
        cli_vars=cli_vars,
        variables={**project_vars, **(project_vars.get(project.project_name) or {}), **cli_vars},
    )


def one_line(error: BaseException | str) -> str:
    """Message of an error, or a text, on one line, without indentation and line breaks."""
    return " ".join(str(error).split())


def one_row(cursor: psycopg.Cursor) -> tuple:
    """Return the row of a query that has exactly one."""
    [row] = cursor.fetchall()
    return row


def table_exists(database: psycopg.Connection | psycopg.Cursor, schema: str, table: str) -> bool:
    """Return whether there is a table or view of that name."""
    query = "select to_regclass(format('%%I.%%I', %s::text, %s::text)) is not null"
    return one_row(database.execute(query, [schema, table]))[0]


def where(project: Project) -> str:
    """What the project's target connects to, for messages."""
    credentials = project.credentials
    return f"database {credentials.database!r} at {credentials.host}:{credentials.port}"


@contextlib.contextmanager
def connect(project: Project) -> Iterator[psycopg.Connection]:
    """Open a connection to the target, in autocommit mode and at UTC, and close it at the end.

    Whatever the database refuses inside the block becomes a DatabaseError too.

    :raises DatabaseError: the server is down, refuses the login, is too old, or fails later on.
    """
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
    }
    try:
        connection = psycopg.connect(
            **{name: value for name, value in options.items() if value is not None}, autocommit=True
        )
    except psycopg.OperationalError as error:
        raise _login_error(project, error) from error
    with connection:
        try:
            connection.execute(SESSION_SETTINGS)
            if credentials.role:
                connection.execute(sql.SQL("set role {}").format(sql.Identifier(credentials.role)))
            if connection.info.server_version < OLDEST_POSTGRESQL * 10_000:
                raise DatabaseError(
                    f"{where(project)} is PostgreSQL {connection.info.parameter_status('server_version')}; "
                    f"the project needs {OLDEST_POSTGRESQL} or newer."
                )
            yield connection
        except psycopg.Error as error:
            raise _database_error(project, error) from error


def check_rights(connection: psycopg.Connection, project: Project) -> None:
    """Check, before anything is built, that the role may read the sources and write the project's schemas.

    A source table that does not exist is left to dbt's own check, which names the variable to set.

    :raises DatabaseError: a right is missing; the hint is the statement that grants it.
    """
    role, database = one_row(connection.execute("select current_user, current_database()"))

    def require(right: str, on: str, kind: str, statement: str) -> None:
        raise DatabaseError(
            f"Role {role!r} has no right to {right} {kind} {on} in {where(project)}.",
            f"As the owner or a superuser: {statement}",
        )

    def quoted(*names: str) -> str:
        return sql.Identifier(*names).as_string(connection)

    source = project.source_schema
    usage = _schema_right(connection, source, "usage")
    if usage is False:
        grant = f"grant usage on schema {quoted(source)} to {quoted(role)}"
        require("use", source, "schema", grant)
    for table in project.source_tables.values() if usage else ():
        relation = quoted(source, table)
        query = "select has_table_privilege(to_regclass(%s)::oid, 'select')"
        [readable] = one_row(connection.execute(query, [relation]))
        if readable is False:
            grant = f"grant select on {relation} to {quoted(role)}"
            require("read", f"{source}.{table}", "table", grant)
    for schema in (project.schema, f"{project.schema}_staging", f"{project.schema}_intermediate"):
        may_create = _schema_right(connection, schema, "create")
        if may_create is False:
            grant = f"grant usage, create on schema {quoted(schema)} to {quoted(role)}"
            require("create tables in", schema, "schema", grant)
        if may_create is None and not _database_right(connection, "create"):
            grant = f"create schema {quoted(schema)} authorization {quoted(role)}"
            require(f"create schema {schema} in", database, "database", grant)
    if not _database_right(connection, "temporary"):
        grant = f"grant temporary on database {quoted(database)} to {quoted(role)}"
        require("create temporary tables in", database, "database", grant)


def _schema_right(connection: psycopg.Connection, schema: str, right: str) -> bool | None:
    """Whether the role has a right on a schema; None when there is no such schema."""
    query = "select has_schema_privilege(to_regnamespace(quote_ident(%s))::oid, %s)"
    return one_row(connection.execute(query, [schema, right]))[0]


def _database_right(connection: psycopg.Connection, right: str) -> bool:
    return one_row(connection.execute("select has_database_privilege(current_database(), %s)", [right]))[0]


# --- The lock of a run ---------------------------------------------------------------------------------------------
# One run at a time per target schema. The lock belongs to the session, so it is gone with the process, however that
# ends. The models, in sessions of dbt's, look at the same key before they write, and share a second one while they
# do (macros/runs/run_lock.sql).

RUN_LOCK = "ciris_scoring"
WRITERS_LOCK = "ciris_scoring_writers"
LOCK_KEY = "hashtext(%(lock)s), hashtext(%(schema)s)"

LOCK_SECONDS = 5
"""How long to wait for a lock: a killed run's sessions are ended by the server a moment later."""


@contextlib.contextmanager
def run_lock(
    connection: psycopg.Connection, schema: str, report: Callable[[str], None] = lambda line: None
) -> Iterator[int]:
    """Hold the lock of a target schema; gives the backend pid that holds it.

    Nobody else writes there then: what an earlier run still had at work, having lost the lock, is ended first.

    :param report: is given a line for each database process that was ended.
    :raises RunInProgress: another session holds it, and keeps it for longer than ``LOCK_SECONDS``.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while not _execute_on_lock(connection, "pg_try_advisory_lock", RUN_LOCK, schema):
        if time.monotonic() > deadline:
            raise _held_by_another(connection, schema)
        time.sleep(0.25)
    try:
        _end_writers(connection, schema, report)
        yield connection.info.backend_pid
    finally:
        with contextlib.suppress(psycopg.Error):  # the connection is gone, and the lock with it
            _execute_on_lock(connection, "pg_advisory_unlock", RUN_LOCK, schema)


def _execute_on_lock(connection: psycopg.Connection, function: str, lock: str, schema: str) -> bool:
    return one_row(connection.execute(f"select {function}({LOCK_KEY})", {"lock": lock, "schema": schema}))[0]


def _end_writers(connection: psycopg.Connection, schema: str, report: Callable[[str], None]) -> None:
    """End what a run that has lost the lock still writes: it was killed, or only cut off. More cannot follow."""
    deadline = time.monotonic() + LOCK_SECONDS
    while not _execute_on_lock(connection, "pg_try_advisory_lock", WRITERS_LOCK, schema):
        for pid, user, _ in _holders(connection, WRITERS_LOCK, schema):
            if time.monotonic() > deadline:
                raise RunInProgress(
                    f"A run that has lost its lock still writes in schema {schema!r}: backend pid {pid} of {user}.",
                    f"End it in the database, as {user} or a superuser: select pg_terminate_backend({pid});",
                )
            with contextlib.suppress(
                psycopg.errors.InsufficientPrivilege
            ):  # another role's: the server may end it
                if one_row(connection.execute("select pg_terminate_backend(%s, 1000)", [pid]))[0]:
                    report(
                        f"Ended database process {pid}, at work for a run that has lost its lock on {schema}."
                    )
        time.sleep(0.05)
    _execute_on_lock(connection, "pg_advisory_unlock", WRITERS_LOCK, schema)


def _holders(connection: psycopg.Connection, lock: str, schema: str) -> list[tuple]:
    """Pid, user and start of each session that holds a lock."""
    return connection.execute(
        """
        select activity.pid, activity.usename, activity.backend_start
        from pg_locks as locks
        inner join pg_stat_activity as activity using (pid)
        where
            locks.locktype = 'advisory' and locks.granted
            and locks.database = (select oid from pg_database where datname = current_database())
            and (locks.classid, locks.objid, locks.objsubid)
                = (hashtext(%(lock)s)::oid, hashtext(%(schema)s)::oid, 2)
        """,
        {"lock": lock, "schema": schema},
    ).fetchall()


def _held_by_another(connection: psycopg.Connection, schema: str) -> RunInProgress:
    holders = _holders(connection, RUN_LOCK, schema)
    if not holders:
        return RunInProgress(f"Another run on schema {schema!r} has only just ended.", "Start again.")
    pid, user, since = holders[0]
    connected = f", connected since {since:%Y-%m-%d %H:%M:%S} UTC" if since else ""
    return RunInProgress(
        f"Another run is at work on schema {schema!r}: backend pid {pid} of {user}{connected}.",
        f"Wait until it has ended. If it hangs, end it in the database: select pg_terminate_backend({pid});",
    )


# --- What the database says, for people ----------------------------------------------------------------------------

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
    "42501": "Grant the right to the role; docs/operations lists the rights that the project needs.",
    "53100": "Make room on the database's disk, then run again.",
    "53200": "The server is out of memory: lower the variable scoring_work_mem, then run again.",
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
    """Every statement of ours is a transaction or inside one, so that what failed has left nothing behind."""
    state = error.sqlstate or ""
    lost = isinstance(error, psycopg.OperationalError) and (not state or state[:3] in ("57P", "08"))
    hint = LOST_HINT if lost else _HINTS_BY_STATE.get(state, "Nothing was changed by the failed step.")
    return DatabaseError(f"{where(project)} failed: {one_line(error)}", hint)
