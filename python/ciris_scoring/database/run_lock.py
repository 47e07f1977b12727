"""Lock of a run: one run at a time per target schema.

The lock belongs to a transaction that does nothing else, and ends with the process. It only refuses a second run at its
start. int_built ensures that two runs never write at the same time (macros/run/enter_node.sql).
"""

import contextlib
import time
from collections.abc import Iterator

import psycopg
from psycopg.rows import TupleRow

from ciris_scoring.database.connection import TargetConnection, one_row
from ciris_scoring.errors import RunInProgress

RUN_LOCK = "ciris_scoring"
LOAD_LOCK = "ciris_scoring_load"
"""Names of advisory locks: the lock of a run, and the lock of a transaction that loads batches."""
LOCK_KEY = "hashtext(%(lock)s), hashtext(%(schema)s)"
"""SQL of the two parts of a lock's key: its name, and the target schema or, of a load, the schema of the sources."""
HELD = """
    locks.locktype = 'advisory' and locks.granted
    and locks.database = (select oid from pg_database where datname = current_database())
    and (locks.classid, locks.objid, locks.objsubid) = (hashtext(%(lock)s)::oid, hashtext(%(schema)s)::oid, 2)
"""
"""Condition on pg_locks: a session holds the advisory lock of a target schema."""

LOCK_SECONDS = 5
"""Seconds to wait for a lock. After a run was killed, the server ends its sessions about one second later, because of
setting client_connection_check_interval."""


@contextlib.contextmanager
def run_lock(connection: psycopg.Connection, schema: str) -> Iterator[None]:
    """Hold the lock of a target schema during the block.

    :param connection: a connection that has no transaction and no other use during the block. Its settings hold while
        the transaction is idle.
    :raises RunInProgress: another session holds the lock for longer than ``LOCK_SECONDS``.
    """
    connection.execute("begin")
    if isinstance(connection, TargetConnection) and connection.settings is not None:
        connection.execute(connection.settings)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _execute_on_lock(connection, "pg_try_advisory_xact_lock", RUN_LOCK, schema):
            if time.monotonic() > deadline:
                raise _held_by_another(connection, RUN_LOCK, schema)
            time.sleep(0.25)
        yield
    finally:
        with contextlib.suppress(psycopg.Error):  # a closed connection has released the lock
            connection.execute("rollback")


def take_in_turn(connection: psycopg.Connection, lock: str, schema: str, seconds: float) -> None:
    """Take a lock of a schema until the transaction ends. Sessions that wait get the lock in turn.

    :param seconds: longest time to wait.
    :raises RunInProgress: another session holds the lock for longer.
    """
    limit = "select set_config('lock_timeout', %s, true)"
    try:
        with connection.transaction():
            connection.execute(limit, [f"{max(1, round(seconds * 1000))}ms"])
            _execute_on_lock(connection, "pg_advisory_xact_lock", lock, schema)
            connection.execute(limit, ["0"])
    except psycopg.errors.LockNotAvailable as error:
        raise _held_by_another(connection, lock, schema) from error


def is_held(connection: psycopg.Connection, lock: str, schema: str) -> bool:
    """Return whether a session holds a lock of a target schema.

    :param lock: ``RUN_LOCK`` or ``LOAD_LOCK``.
    """
    # pg_stat_activity cannot be used, because its content does not change within a transaction.
    query = f"select exists (select 1 from pg_locks as locks where {HELD})"
    return bool(one_row(connection.execute(query, {"lock": lock, "schema": schema}))[0])


def _execute_on_lock(connection: psycopg.Connection, function: str, lock: str, schema: str) -> bool:
    query = f"select {function}({LOCK_KEY})"
    return bool(one_row(connection.execute(query, {"lock": lock, "schema": schema}))[0])


def _holders(connection: psycopg.Connection, lock: str, schema: str) -> list[TupleRow]:
    return connection.execute(
        f"""
        select activity.pid, activity.usename, activity.backend_start
        from pg_locks as locks
        inner join pg_stat_activity as activity using (pid)
        where {HELD}
        """,
        {"lock": lock, "schema": schema},
    ).fetchall()


def _held_by_another(connection: psycopg.Connection, lock: str, schema: str) -> RunInProgress:
    what = "load" if lock == LOAD_LOCK else "run"
    holders = _holders(connection, lock, schema)
    if not holders:
        return RunInProgress(f"Another {what} on schema {schema!r} has only just ended.", "Start again.")
    pid, user, since = holders[0]
    connected = f", connected since {since:%Y-%m-%d %H:%M:%S} UTC" if since else ""
    return RunInProgress(
        f"Another {what} is in progress on schema {schema!r}: backend pid {pid} of {user}{connected}.",
        f"Wait until it has ended. If it hangs, end it in the database: select pg_terminate_backend({pid});",
    )
