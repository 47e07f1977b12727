"""Cache of complete answers for the current publication, with ETags for conditional requests."""

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.publication import Publication, read_publication
from ciris_scoring.show.api.database import Database
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.api.settings import Settings

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
