"""Pool of read-only database sessions. Requests fail at once while the database is away, and the pool reconnects."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from ciris_scoring.database.connection import SETTINGS, TargetConnection, connection_options, prepare, where
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import say
from ciris_scoring.errors import DatabaseError, NoRight, one_line
from ciris_scoring.show.api.problems import Problem

CONNECT_SECONDS = 3
WAIT_SECONDS = 5
"""Seconds for which a request waits for a free session."""
PROBE_SECONDS = 0.5
"""Seconds between two attempts to reach a database that is away."""
TCP_USER_TIMEOUT_MS = 5_000
NOT_PUBLISHED_STATES = ("42P01", "3F000", "42703")  # table, schema or column does not exist
CANCELLED_STATE = "57014"
NO_RIGHT_STATE = "42501"
NAMED = "The server's log names it."
LOG = logging.getLogger("uvicorn.error")
"""Log of the server, which suppresses repetitions."""

# psycopg logs each failed attempt to connect. This module reports an outage only once.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)

Answer = TypeVar("Answer")


class Database:
    """Pool of read-only sessions with the database of a project.

    :param connections: maximum number of sessions.
    :param statement_timeout: maximum duration of a query in seconds.
    """

    def __init__(self, project: Project, connections: int, statement_timeout: float):
        self.project = project
        self.relations = read_relations(project)
        self._connections = connections
        self._settings = {
            **SETTINGS,
            "statement_timeout": f"{statement_timeout * 1000:.0f}ms",
            "idle_in_transaction_session_timeout": f"{statement_timeout * 1000:.0f}ms",
        }
        self._options: dict[str, Any] = {
            **connection_options(project.credentials),
            "connect_timeout": CONNECT_SECONDS,
            "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
        }
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pool: ConnectionPool[TargetConnection] | None = None
        """The pool; None while the database cannot be reached."""
        self._prober: threading.Thread | None = None

    @property
    def is_away(self) -> bool:
        """Whether the last attempt to reach the database failed."""
        return self._pool is None

    def open(self) -> None:
        """Connect. If the database is away, try again in the background."""
        try:
            self._pool = self._new_pool()
        except psycopg.Error as error:
            self._begin_probing(error)

    def close(self) -> None:
        """Close all sessions."""
        self._closed.set()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        if self._prober is not None:
            self._prober.join()

    def read(self, reading: Callable[[psycopg.Connection], Answer]) -> Answer:
        """Run a function in a read-only transaction in which all queries see the same snapshot. If the session is lost,
        the function is run again in another session. If all sessions are busy, the request waits.

        :raises Problem: the database is away, busy or returns an error, or nothing is published.
        """
        for _ in range(self._connections + 1):
            pool = self._pool
            if pool is None:
                break
            try:
                with pool.connection(WAIT_SECONDS) as connection:
                    try:
                        # A session may have been lost while it was idle. Then its first statement fails, and the loop
                        # takes another session.
                        with connection.transaction():
                            return reading(connection)
                    except DatabaseError as error:
                        LOG.error(f"{one_line(error.message)} {one_line(error.hint or '')}")
                        if isinstance(error, NoRight):
                            raise Problem("no-right", f"{error.message} {NAMED}") from error
                        raise Problem("internal", f"{error.message} {error.hint}") from error
                    except psycopg.Error as error:
                        if not connection.closed:
                            raise _refusal(error) from error
            except PoolClosed:
                break
            except (PoolTimeout, TooManyRequests) as error:
                raise Problem("database-busy", "All sessions with the database are in use.") from error
        raise Problem("database-away", "The database cannot be reached; ask again in a moment.")

    def _configure(self, connection: TargetConnection) -> None:
        prepare(connection, self.project, self._settings)
        connection.isolation_level = IsolationLevel.REPEATABLE_READ  # one snapshot for all queries
        connection.read_only = True

    def _new_pool(self) -> ConnectionPool[TargetConnection]:
        """Connect once to check the database, then create a pool."""
        with TargetConnection.connect(**self._options) as connection:
            self._configure(connection)
        return ConnectionPool(
            connection_class=TargetConnection,
            kwargs=self._options,
            min_size=1,
            max_size=self._connections,
            open=True,
            configure=self._configure,
            reconnect_timeout=0,
            reconnect_failed=self._on_reconnect_failed,
            name="ciris-scoring-api",
        )

    def _on_reconnect_failed(self, pool: ConnectionPool) -> None:
        """Close a pool that cannot connect, so that waiting requests fail at once. The pool's workers call this method.

        A pool that still has sessions is kept, because it only failed to grow.
        """
        if pool.get_stats().get("pool_size", 0) > 0:
            return
        with self._lock:
            if self._pool is not pool:
                return
            self._pool = None
        self._begin_probing(None)
        threading.Thread(target=pool.close, name="ciris-scoring-api-closing", daemon=True).start()

    def _begin_probing(self, error: psycopg.Error | None) -> None:
        reason = "" if error is None else f": {one_line(error)}"
        say(f"{where(self.project)} is away{reason}. Answering 503 until it is back.")
        self._prober = threading.Thread(target=self._probe, name="ciris-scoring-api-probe", daemon=True)
        self._prober.start()

    def _probe(self) -> None:
        away_since = time.monotonic()
        while not self._closed.wait(PROBE_SECONDS):
            try:
                pool = self._new_pool()
            except (psycopg.Error, DatabaseError):
                continue
            with self._lock:
                if not self._closed.is_set():
                    self._pool = pool
            if self._closed.is_set():
                pool.close()
            else:
                say(f"{where(self.project)} is back, after {time.monotonic() - away_since:.0f} s.")
            return


def _refusal(error: psycopg.Error) -> Problem:
    """Return the problem for a query that the database refused. The log contains the reason."""
    if error.sqlstate == CANCELLED_STATE:
        return Problem("database-busy", "The database did not answer in time.")
    LOG.error(f"The database refuses a query: {one_line(error)}")
    if error.sqlstate == NO_RIGHT_STATE:
        return Problem("no-right", f"The role of the server may not read what the answer needs. {NAMED}")
    if error.sqlstate in NOT_PUBLISHED_STATES:
        return Problem("not-published", "The marts do not exist or are of another version: score the fleet first.")
    return Problem("database-away", "The database refuses the query; the server's log says why.")
