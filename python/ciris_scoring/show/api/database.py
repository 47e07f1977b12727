"""Sessions with the database, and the answers that are made from it once per publication."""

import asyncio
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ciris_scoring.database.connection import SETTINGS, TargetConnection, connection_options, prepare
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.errors import DatabaseError, NoRight, one_line
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.runs import Publication, read_publication
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.api.settings import Settings

CONNECT_SECONDS = 3
WAIT_SECONDS = 5
"""Seconds for which a request waits until another request closes its session."""
TCP_USER_TIMEOUT_MS = 5_000
NOT_PUBLISHED_STATES = ("42P01", "3F000", "42703")  # table, schema or column does not exist
CANCELLED_STATE = "57014"
NO_RIGHT_STATE = "42501"
NAMED = "The server's log names it."
LOG = logging.getLogger("uvicorn.error")
"""Log of the server."""
JSON = "application/json"
CSV = "text/csv"

Read = TypeVar("Read")


class Database:
    """Read-only sessions with the database of a project. Each reading opens a session and closes it, so nothing has to
    be repaired after an outage.

    :param connections: maximum number of sessions at the same time.
    :param statement_timeout: maximum duration of a query in seconds.
    """

    def __init__(self, project: Project, connections: int = 8, statement_timeout: float = 15):
        self.project = project
        self.relations = read_relations(project)
        limit = f"{statement_timeout * 1000:.0f}ms"
        self._settings = {**SETTINGS, "statement_timeout": limit, "idle_in_transaction_session_timeout": limit}
        self._options: dict[str, Any] = {
            **connection_options(project.credentials),
            "connect_timeout": CONNECT_SECONDS,
            "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
        }
        self._free = threading.BoundedSemaphore(connections)

    def read(self, reading: Callable[[psycopg.Connection], Read]) -> Read:
        """Run a function in a read-only transaction in which all queries see the same snapshot. If all sessions are
        busy, the request waits.

        :raises Problem: the database is away, busy or returns an error, or nothing is published.
        """
        if not self._free.acquire(timeout=WAIT_SECONDS):
            raise Problem("database-busy", "All sessions with the database are in use.")
        try:
            with TargetConnection.connect(**self._options) as connection:
                prepare(connection, self.project, self._settings)
                connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
                with connection.transaction():
                    return reading(connection)
        except NoRight as error:
            raise Problem("no-right", f"{_logged(error)} {NAMED}") from error
        except DatabaseError as error:
            raise Problem("internal", f"{_logged(error)} {error.hint}") from error
        except psycopg.Error as error:
            raise _refusal(error) from error
        finally:
            self._free.release()


def _logged(error: DatabaseError) -> str:
    """Log an error and return its message."""
    LOG.error(f"{one_line(error.message)} {one_line(error.hint or '')}")
    return error.message


def _refusal(error: psycopg.Error) -> Problem:
    """Return the problem for a login or query that failed. The log contains the reason."""
    if error.sqlstate == CANCELLED_STATE:
        return Problem("database-busy", "The database did not answer in time.")
    LOG.error(f"The database cannot answer: {one_line(error)}")
    if error.sqlstate == NO_RIGHT_STATE:
        return Problem("no-right", f"The role of the server may not read what the answer needs. {NAMED}")
    if error.sqlstate in NOT_PUBLISHED_STATES:
        return Problem("not-published", "The marts do not exist or are of another version: score the fleet first.")
    return Problem("database-away", "The database cannot be read; the server's log says why. Ask again in a moment.")


class Answers:
    """Answers from one database. Each answer is built once per publication and then served from the cache."""

    def __init__(self, database: Database, settings: Settings):
        self.database = database
        self.settings = settings
        self._publication: Publication | None = None
        self._checked_at = float("-inf")
        self._checking: asyncio.Task[Publication] | None = None
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._n_bytes = 0
        self._being_made: dict[Hashable, asyncio.Task[bytes]] = {}

    def read(self, reading: Callable[[Marts], Read]) -> Read:
        """Run a function that reads the marts, as described in `Database.read`."""
        return self.database.read(lambda connection: reading(Marts(connection, self.database.relations)))

    async def publication(self) -> Publication:
        """Return the current publication, at most `Settings.version_seconds` old.

        :raises Problem: the database cannot be reached, or no score is published.
        """
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
        key = (request.scope["path"], request.scope["query_string"]) if key is None else key
        # Clients must revalidate an answer before they reuse it. If the server has an API key, shared caches must not
        # store answers.
        scope = "public" if self.settings.key is None else "private"
        headers = {"ETag": _etag(publication, key), "Cache-Control": f"{scope}, no-cache"}
        if _matches(request.headers.get("if-none-match"), headers["ETag"]):
            # Only a client that received the answer knows the ETag. So 304 is correct even if the answer is not cached
            # any more.
            return Response(None, 304, headers)
        body = self._kept.get(key) if publication is self._publication else None
        if body is None:
            task_key = (publication.identity, key)
            task = self._being_made.get(task_key)
            if task is None:
                task = asyncio.create_task(run_in_threadpool(lambda: self.read(build).encode()))
                self._being_made[task_key] = task
                task.add_done_callback(lambda _: self._being_made.pop(task_key, None))
            body = await asyncio.shield(task)
            self._keep(publication, key, body)
        else:
            self._kept.move_to_end(key)
        return Response(body, 200, headers, media_type)

    def _keep(self, publication: Publication, key: Hashable, body: bytes) -> None:
        """Keep an answer of the current publication. The least recently used answers make room for it."""
        is_new = publication is self._publication and key not in self._kept
        if is_new and len(body) <= self.settings.cache_bytes:
            self._kept[key] = body
            self._n_bytes += len(body)
            while self._n_bytes > self.settings.cache_bytes:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])


def _etag(publication: Publication, key: Hashable) -> str:
    """Return the ETag of an answer. It is weak, because `timestamp` in the body differs when the answer is built
    again."""
    digest = hashlib.sha256(f"{publication.identity}|{key!r}".encode("utf-8", "surrogatepass")).hexdigest()
    return f'W/"{digest[:32]}"'


def _matches(if_none_match: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header names an ETag, by the weak comparison of RFC 9110."""
    tags = (tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(","))
    return etag.removeprefix("W/") in tags
