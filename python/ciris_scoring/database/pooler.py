"""Detect poolers, such as PgBouncer, between a client and the server.

A run needs sessions for its lock, its settings and its scratch tables. A pooler in session mode keeps them. In
transaction or statement mode it gives each transaction to any free server process, and other clients would get the
settings.
"""

from collections.abc import Callable

import psycopg

from ciris_scoring.errors import DatabaseError

TRIALS = 20
"""Number of transactions of a second connection whose server processes are compared with the server process of the
first connection. One transaction is not enough, because other clients may use the shared process at that moment."""


def backend_pid(connection: psycopg.Connection) -> int:
    """Return the process id of the session in the server. Behind a pooler, libpq only knows the process id that the
    pooler reports."""
    [(pid,)] = connection.execute("select pg_catalog.pg_backend_pid()", prepare=False).fetchall()
    return int(pid)


def refuse_shared_sessions(
    connection: psycopg.Connection, connect: Callable[[], psycopg.Connection], where: str
) -> bool:
    """Return whether there is a pooler. Refuse a pooler in transaction or statement mode, before any setting is
    changed.

    Behind a pooler in session mode, the connection is set to prepare no statements. If the pooler does not reset
    sessions, prepared statements of earlier clients still exist under the same names.

    :param connection: a new connection in autocommit mode; ``connect`` opens a second connection of the same kind.
    :param where: name of the database for the message.
    :raises DatabaseError: the pooler is in transaction or statement mode.
    """
    pid = backend_pid(connection)
    if pid == connection.info.backend_pid:
        return False
    connection.prepare_threshold = None
    with connect() as other:
        if _are_shared(connection, other):
            raise DatabaseError(
                f"{where} is reached through a pooler (PgBouncer or another one) in transaction or statement mode, "
                "which gives the sessions of a run to other clients.",
                "Connect to PostgreSQL itself, or set pool_mode = session in the pooler for this database or user.",
            )
    return True


def _are_shared(connection: psycopg.Connection, other: psycopg.Connection) -> bool:
    """Return whether two connections share a server process, or the server process of one of them changes."""
    ours, theirs = {backend_pid(connection)}, set()
    for _ in range(TRIALS):
        try:
            other.execute("begin", prepare=False)
        except psycopg.Error:  # in statement mode a pooler refuses transactions
            return True
        theirs.add(backend_pid(other))
        if ours & theirs or len(theirs) > 1:
            return True
        other.execute("rollback", prepare=False)
        ours.add(backend_pid(connection))
        if ours & theirs or len(ours) > 1:
            return True
    return False
