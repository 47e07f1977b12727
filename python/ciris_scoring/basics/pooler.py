"""Poolers, such as PgBouncer, between a client and the server.

A run needs sessions for its lock, its settings and its scratch tables. A pooler in session mode keeps them. In
transaction or statement mode it gives each transaction to any free server process, and other clients would get the
settings.
"""

from collections.abc import Callable

import psycopg

from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.sessions import SESSIONS

TRIALS = 20
"""Transactions of a second connection that are compared; other clients may take the server process meanwhile."""


def backend_pid(connection: psycopg.Connection) -> int:
    """Return the process id of the session in the server. What libpq knows is the pooler's, if there is one."""
    [(pid,)] = connection.execute("select pg_catalog.pg_backend_pid()", prepare=False).fetchall()
    return int(pid)


def refuse_shared_sessions(
    connection: psycopg.Connection, connect: Callable[[], psycopg.Connection], where: str
) -> bool:
    """Refuse a pooler in transaction or statement mode, before any setting of a session is changed.

    Behind another pooler the connection prepares no statements: if the pooler does not reset sessions, those of earlier
    clients are still there, under the same names.

    :param connection: a new connection in autocommit mode.
    :param connect: opens another one like it.
    :param where: names the database, for the message.
    :returns: whether there is a pooler.
    :raises DatabaseError: the connection does not have a server process of its own.
    """
    pid = backend_pid(connection)
    SESSIONS.add(pid, connection)
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
    """Whether a pooler gives the process of one connection to another, or changes it."""
    ours, theirs = {backend_pid(connection)}, set()
    for _ in range(TRIALS):
        try:
            other.execute("begin", prepare=False)
        except psycopg.Error:  # statement mode has no transactions
            return True
        theirs.add(backend_pid(other))
        if ours & theirs or len(theirs) > 1:
            return True
        other.execute("rollback", prepare=False)
        ours.add(backend_pid(connection))
        if ours & theirs or len(ours) > 1:
            return True
    return False
