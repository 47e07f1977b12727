"""Sessions with the database, and the answers that are made from it once per publication.

Requests fail at once while the database is away, and the pool reconnects. Complete answers are kept for the current
publication, with ETags for conditional requests.
"""

import asyncio
import gzip
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from ciris_scoring.database.connection import SETTINGS, TargetConnection, connection_options, prepare, where
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import say
from ciris_scoring.errors import DatabaseError, NoRight, one_line
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.runs import Publication, read_publication
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.api.settings import Settings

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
"""Log of the server."""

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


JSON = "application/json"
CSV = "text/csv"
SHORTEST_COMPRESSED = 1_000
Read = TypeVar("Read")


@dataclass(frozen=True)
class Kept:
    """An answer in the cache."""

    body: bytes
    gzipped: bytes | None
    """Compressed body of the answer, or None if the body is too short to compress."""
    headers: dict[str, str]
    media_type: str

    @property
    def n_bytes(self) -> int:
        """Bytes used in the cache."""
        return len(self.body) + len(self.gzipped or b"")

    def response(self, headers: Headers) -> Response:
        """Return the response for a request with the given headers: 304 if the header If-None-Match names this
        answer."""
        if _matches(headers.get("if-none-match"), self.headers["ETag"]):
            return Response(None, 304, self.headers)
        if self.gzipped is not None and _weights(headers.get("accept-encoding", "")).get("gzip", 0) > 0:
            return Response(self.gzipped, 200, {**self.headers, "Content-Encoding": "gzip"}, self.media_type)
        return Response(self.body, 200, self.headers, self.media_type)


class Answers:
    """Answers from one database. Each answer is built once per publication and then served from the cache."""

    def __init__(self, database: Database, settings: Settings):
        self.database = database
        self.settings = settings
        self._publication: Publication | None = None
        self._checked_at = float("-inf")
        self._checking: asyncio.Task[Publication] | None = None
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._n_bytes = 0
        self._being_made: dict[Hashable, asyncio.Task[Kept]] = {}

    def read(self, reading: Callable[[Marts], Read]) -> Read:
        """Run a function that reads the marts, as described in `Database.read`."""
        return self.database.read(lambda connection: reading(Marts(connection, self.database.relations)))

    async def publication(self) -> Publication:
        """Return the current publication, at most `Settings.version_seconds` old.

        :raises Problem: the database cannot be reached, or no score is published.
        """
        if self.database.is_away:
            raise Problem("database-away", "The database cannot be reached; ask again in a moment.")
        if self._publication is None or time.monotonic() - self._checked_at > self.settings.version_seconds:
            if self._checking is None:
                self._checking = asyncio.create_task(self._check())
            return await asyncio.shield(self._checking)
        return self._publication

    async def _check(self) -> Publication:
        try:
            publication = await run_in_threadpool(self.read, read_publication)
        finally:
            self._checking = None
        if self._publication is None or publication.identity != self._publication.identity:
            self._kept.clear()
            self._n_bytes = 0
            self._publication = publication
        self._checked_at = time.monotonic()
        return self._publication

    async def answer(
        self,
        request: Request,
        publication: Publication,
        build: Callable[[Marts], str],
        media_type: str = JSON,
        key: Hashable = None,
    ) -> Response:
        """Return the answer from the cache, or build it. Identical requests at the same time share one build.

        :param build: function that builds the answer from the marts.
        :param key: cache key within the publication; None for path and query of the request.
        :raises Problem: the database cannot be reached or is busy, or `build` raises it.
        """
        key = (_asked_of(request), media_type) if key is None else key
        kept = self._kept.get(key) if publication is self._publication else None
        if kept is not None:
            self._kept.move_to_end(key)
            return kept.response(request.headers)
        headers = self._headers(_etag(publication, key))
        if _matches(request.headers.get("if-none-match"), headers["ETag"], any_tag=False):
            # Only a client that received the answer knows the ETag. So 304 is correct even if the answer is not cached
            # any more.
            return Response(None, 304, headers)
        task_key = (publication.identity, key)
        task = self._being_made.get(task_key)
        if task is None:
            task = asyncio.create_task(run_in_threadpool(self._make, build, headers, media_type))
            self._being_made[task_key] = task
            task.add_done_callback(lambda _: self._being_made.pop(task_key, None))
        made = await asyncio.shield(task)
        self._keep(publication, key, made)
        return made.response(request.headers)

    def _make(self, build: Callable[[Marts], str], headers: dict[str, str], media_type: str) -> Kept:
        body = self.read(build).encode()
        gzipped = gzip.compress(body, compresslevel=6, mtime=0) if len(body) >= SHORTEST_COMPRESSED else None
        return Kept(body, gzipped, headers, media_type)

    def _headers(self, etag: str) -> dict[str, str]:
        # Clients must revalidate an answer before they reuse it. If the server has an API key, shared caches must not
        # store answers.
        scope = "public" if self.settings.key is None else "private"
        return {"ETag": etag, "Cache-Control": f"{scope}, no-cache", "Vary": "Accept, Accept-Encoding"}

    def _keep(self, publication: Publication, key: Hashable, kept: Kept) -> None:
        if publication is not self._publication or key in self._kept:
            return
        if kept.n_bytes > self.settings.cache_bytes // 4:
            return
        self._kept[key] = kept
        self._n_bytes += kept.n_bytes
        while self._n_bytes > self.settings.cache_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._n_bytes -= oldest.n_bytes


def preferred(accept: str | None, offered: Sequence[str]) -> str | None:
    """Return the offered media type that an Accept header prefers, or None if it accepts none of them. If it prefers
    several equally, return the first one."""
    weights = _weights("*/*" if accept is None else accept)

    def weight(media_type: str) -> float:
        ranges = (media_type, media_type.split("/")[0] + "/*", "*/*")
        return next((weights[one] for one in ranges if one in weights), 0.0)

    best = max(offered, key=weight)
    return best if weight(best) > 0 else None


def _weights(header: str) -> dict[str, float]:
    """Return the weight (q) of each value in an Accept header. A weight that is not a number counts as 0."""
    found = {}
    for entry in header.lower().split(","):
        value, *parameters = (part.strip() for part in entry.split(";"))
        named = {name.strip(): number for name, _, number in (one.partition("=") for one in parameters)}
        try:
            found[value] = float(named.get("q", 1))
        except ValueError:
            found[value] = 0.0
    return found


def _asked_of(request: Request) -> Hashable:
    """Return the cache key of a request: path and query."""
    return request.scope["path"], request.scope["query_string"]


def _etag(publication: Publication, key: Hashable) -> str:
    """Return the ETag of an answer. It is weak, because `timestamp` in the body differs when the answer is built
    again."""
    digest = hashlib.sha256(f"{publication.identity}|{key!r}".encode("utf-8", "surrogatepass")).hexdigest()
    return f'W/"{digest[:32]}"'


def _matches(if_none_match: str | None, etag: str, *, any_tag: bool = True) -> bool:
    """Return whether an If-None-Match header matches an ETag, by the weak comparison of RFC 9110.

    :param any_tag: whether `*` matches.
    """
    if if_none_match is None:
        return False
    opaque = etag.removeprefix("W/")
    tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return any(tag == opaque or (any_tag and tag == "*") for tag in tags)
