"""Whole answers, kept while what is published stands, with the tags by which clients ask whether it still does."""

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from ciris_scoring.reading.marts import Marts
from ciris_scoring.reading.publication import Publication, read_publication
from ciris_scoring.serve.api.database import Database
from ciris_scoring.serve.api.models import Answer, Cache
from ciris_scoring.serve.api.problems import Problem
from ciris_scoring.serve.api.settings import Settings

JSON = "application/json"
CSV = "text/csv"
SHORTEST_COMPRESSED = 1_000
Read = TypeVar("Read")
Build = Callable[[Marts], bytes | Answer]


@dataclass(frozen=True)
class Kept:
    """An answer that was made."""

    body: bytes
    gzipped: bytes | None
    """The body for clients that take it compressed; None where it is too short for that."""
    headers: dict[str, str]
    media_type: str

    @property
    def n_bytes(self) -> int:
        """What keeping it takes."""
        return len(self.body) + len(self.gzipped or b"")

    def response(self, headers: Headers) -> Response:
        """The answer as it is sent to who asked with these headers: 304 to whoever has it."""
        if _matches(headers.get("if-none-match"), self.headers["ETag"]):
            return Response(None, 304, self.headers)
        if self.gzipped is not None and _takes_gzip(headers.get("accept-encoding")):
            return Response(self.gzipped, 200, {**self.headers, "Content-Encoding": "gzip"}, self.media_type)
        return Response(self.body, 200, self.headers, self.media_type)


class Answers:
    """Answers of one database, made once per publication."""

    def __init__(self, database: Database, settings: Settings):
        self.database = database
        self.settings = settings
        self._publication: Publication | None = None
        self._checked_at = float("-inf")
        self._checking: asyncio.Task[Publication] | None = None
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._n_bytes = 0
        self._being_made: dict[Hashable, asyncio.Task[tuple[Kept, Kept]]] = {}

    def read(self, reading: Callable[[Marts], Read]) -> Read:
        """Carry out a reading of the marts, as `Database.read` does."""
        return self.database.read(lambda connection: reading(Marts(connection, self.database.relations)))

    async def publication(self) -> Publication:
        """What is published, as it was a moment ago at most.

        :raises Problem: the database is away, or no score is published.
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
        build: Build,
        media_type: str = JSON,
        key: Hashable = None,
    ) -> Response:
        """Answer with what was made for this publication, or make it, one of many equal requests for all of them.

        :param build: makes it, for this request.
        :param key: what the answer depends on beside the publication, where that is not path and query.
        :raises Problem: the database is away or busy, or build says so.
        """
        key = _asked_of(request) if key is None else key
        kept = self._kept.get(key) if publication is self._publication else None
        if kept is not None:
            self._kept.move_to_end(key)
            return kept.response(request.headers)
        etag = _etag(publication, key)
        if _matches(request.headers.get("if-none-match"), etag, any_tag=False):
            # Only whoever was given the answer has its tag; one too large to be kept is not made again for them.
            return Response(None, 304, self._headers(etag))
        task_key = (publication.identity, key)
        task = self._being_made.get(task_key)
        if task is None:
            headers = self._headers(etag)
            task = asyncio.create_task(run_in_threadpool(self._make, build, headers, media_type))
            self._being_made[task_key] = task
            task.add_done_callback(lambda _: self._being_made.pop(task_key, None))
        now, later = await asyncio.shield(task)
        self._keep(publication, key, later)
        return now.response(request.headers)

    def _make(self, build: Build, headers: dict[str, str], media_type: str) -> tuple[Kept, Kept]:
        """The answer to the request that it is made for, and to later ones."""
        answer = self.read(build)
        if isinstance(answer, bytes):
            kept = Kept(answer, _gzipped(answer), headers, media_type)
            return kept, kept
        now = answer.body()
        later = answer.model_copy(update={"cache": self.cache(cached=True)}).body()
        return Kept(now, None, headers, media_type), Kept(later, _gzipped(later), headers, media_type)

    def cache(self, *, cached: bool = False) -> Cache:
        """What an answer says of itself: whether it was made for an earlier request."""
        return Cache(cached=cached, ttl_seconds=max(1, round(self.settings.version_seconds)))

    def _headers(self, etag: str) -> dict[str, str]:
        # Whoever keeps an answer asks whether it still stands; with a key, nobody keeps it for others.
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


def prefers_csv(accept: str | None) -> bool:
    """Whether a client would rather have CSV than JSON, by the qualities in its Accept header."""
    if accept is None or "text/" not in accept.lower():
        return False
    qualities = {CSV: 0.0, JSON: 0.0}
    how_close = {CSV: 0, JSON: 0}
    for entry in accept.lower().split(","):
        media_range, *parameters = (part.strip() for part in entry.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        for media_type in qualities:
            ranges = ("*/*", media_type.split("/")[0] + "/*", media_type)
            closeness = ranges.index(media_range) + 1 if media_range in ranges else 0
            if closeness > how_close[media_type]:
                how_close[media_type], qualities[media_type] = closeness, quality
    return qualities[CSV] > qualities[JSON]


def _takes_gzip(accept_encoding: str | None) -> bool:
    if accept_encoding is None:
        return False
    codings = {}
    for entry in accept_encoding.lower().split(","):
        coding, _, quality = entry.partition(";")
        codings[coding.strip()] = quality.strip().replace(" ", "")
    return codings.get("gzip", codings.get("*", "q=0")) not in ("q=0", "q=0.0", "q=0.00", "q=0.000")


def _gzipped(body: bytes) -> bytes | None:
    return gzip.compress(body, compresslevel=6, mtime=0) if len(body) >= SHORTEST_COMPRESSED else None


def _asked_of(request: Request) -> Hashable:
    """What a request asks for, whatever clients add against caches: path, query, and whether CSV is preferred."""
    query = [one for one in request.scope["query_string"].split(b"&") if one and not one.startswith(b"_")]
    return request.scope["path"], *query, prefers_csv(request.headers.get("accept"))


def _etag(publication: Publication, key: Hashable) -> str:
    """Weak, because `timestamp` says when the body was made, whatever it says beside that."""
    digest = hashlib.sha256(f"{publication.identity}|{key!r}".encode("utf-8", "surrogatepass")).hexdigest()
    return f'W/"{digest[:32]}"'


def _matches(if_none_match: str | None, etag: str, *, any_tag: bool = True) -> bool:
    """Compare as RFC 9110 has it for If-None-Match: weakly; `*` matches any answer, if it may."""
    if if_none_match is None:
        return False
    opaque = etag.removeprefix("W/")
    tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return any(tag == opaque or (any_tag and tag == "*") for tag in tags)
