"""Middleware before the endpoints: allowed host names, rate limits, API key and security headers."""

import contextlib
import hashlib
import hmac
import ipaddress
import math
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Mapping
from time import monotonic
from urllib.parse import quote, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ciris_scoring.show.api.pages import written
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.api.settings import Settings, is_loopback

ABSOLUTE = re.compile(rb"https?://(?P<host>[^/]+)(?P<path>/.*)?", re.IGNORECASE)
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z.-]+))(?::\d*)?")
"""A Host header in lower case: an IPv6 address in brackets, or a name, then perhaps a port."""
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths for probes, which do not need a key. /healthz does not have a rate limit either."""
MOST_CLIENTS = 10_000
"""Maximum number of clients whose requests are counted. If there are more, the client with the oldest request is
forgotten."""
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Security headers that are added to an answer unless the answer sets them."""


class SecurityHeaders:
    """Adds security headers to all answers, including problems."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] == "http":
            send = _with_headers(send, SECURITY_HEADERS)
        return await self.app(scope, receive, send)


class PlainRequests:
    """Normalizes requests: HEAD becomes GET without a body, and a slash at the end of a path is removed.

    An absolute URI in the request line is split into path and Host header, as RFC 9112, 3.2.2 requires.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if found := ABSOLUTE.fullmatch(scope["raw_path"]):
            host, path = found["host"], found["path"] or b"/"
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope = {
                **scope,
                "path": unquote(path.decode("ascii")),
                "raw_path": path,
                "headers": [(b"host", host), *headers],
            }
        if scope["path"].endswith("/") and len(scope["path"]) > 1:
            if not scope["path"].startswith("/api/"):
                # The relative links of a page work only if its path has no slash at the end, so redirect the browser.
                page = scope["path"].rstrip("/").rpartition("/")[2]
                query = scope["query_string"].decode("latin-1")
                address = f"../{quote(page)}{'?' * bool(query)}{query}"
                return await RedirectResponse(address, 307)(scope, receive, send)
            scope = {**scope, "path": scope["path"].rstrip("/"), "raw_path": scope["raw_path"].rstrip(b"/")}
        if scope["method"] != "HEAD":
            return await self.app(scope, receive, send)

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        return await self.app({**scope, "method": "GET"}, receive, send_without_body)


class Guard:
    """Checks host name, rate limit and API key of a request."""

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app = app
        self.settings = settings
        self.limits = Limits(settings.requests_per_minute) if settings.requests_per_minute else None
        self.key_digest = _digest(settings.key) if settings.key is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        remaining = None
        try:
            _check_length(headers)
            self._check_host(headers)
            has_key = self._has_key(headers)
            if self.limits is not None and scope["path"] != "/healthz":
                # Requests without the right key have a separate limit, so that somebody who guesses keys cannot block
                # other clients at the same address.
                remaining = self.limits.take(client_of(scope) + ("" if has_key else " without the key"))
            if not has_key and scope["path"] not in OPEN_PATHS:
                # CORS preflight requests, which have no key, are answered by another middleware before this one.
                raise Problem(
                    "key-required",
                    "Send the API key as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as a password.",
                    {"WWW-Authenticate": 'Bearer, Basic realm="ciris-scoring", charset="UTF-8"'},
                )
        except Problem as problem:
            return await written(Request(scope), problem)(scope, receive, send)
        if remaining is not None:
            send = _with_headers(send, _limit_headers(self.settings.requests_per_minute, remaining))
        return await self.app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        if self.settings.local_names_only and not is_loopback(_host_name(headers.get("host", ""))):
            raise Problem(
                "host-not-served",
                "Without an API key this server answers only to localhost and loopback addresses.",
            )

    def _has_key(self, headers: Headers) -> bool:
        """Return whether the request has the right key, or no key is required."""
        if self.key_digest is None:
            return True
        # Digests have equal lengths, so the time of the comparison does not depend on the key.
        return any(hmac.compare_digest(_digest(key), self.key_digest) for key in _keys(headers))


class Limits:
    """Rate limits as token buckets, one per client.

    :param per_minute: requests that a client may send in a minute; also the size of a bucket.
    """

    def __init__(self, per_minute: int):
        self.per_minute = per_minute
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Remaining requests and the time at which they were computed, by client."""

    def take(self, client: str) -> int:
        """Count a request and return the number of requests that are left.

        :raises Problem: no request is left.
        """
        now = monotonic()
        left, at = self.buckets.pop(client, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - at) * self.per_minute / 60)
        allowed = left >= 1
        self.buckets[client] = (left - 1 if allowed else left, now)
        if len(self.buckets) > MOST_CLIENTS:
            self.buckets.popitem(last=False)
        if allowed:
            return int(left - 1)
        seconds = math.ceil((1 - left) * 60 / self.per_minute)
        raise Problem(
            "too-many-requests",
            f"More than {self.per_minute} requests in a minute; wait {seconds} s.",
            {"Retry-After": str(seconds), **_limit_headers(self.per_minute, 0)},
            limit=self.per_minute,
            retry_after=seconds,
        )


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return a function that sends messages and adds the headers that an answer does not set itself."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent = MutableHeaders(scope=message)
            for name, value in headers.items():
                sent.setdefault(name, value)
        await send(message)

    return send_with_headers


def _limit_headers(limit: int, remaining: int) -> dict[str, str]:
    return {"X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": str(remaining)}


def client_of(scope: Scope) -> str:
    """Return the address of the client. For IPv6 it is the /64 network, which usually belongs to one client."""
    address = scope["client"][0] if scope.get("client") else ""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return str(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _check_length(headers: Headers) -> None:
    """Refuse a request that gives its length in two ways, because a proxy may read another length than this server."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise Problem(
            "contradictory-request",
            "The request has both Transfer-Encoding and Content-Length: send only one of them.",
            {"Connection": "close"},
        )


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port; empty if the header is not a host."""
    found = HOST.fullmatch(host.lower())
    return (found[1] or found[2]) if found else ""


def _keys(headers: Headers) -> list[str]:
    keys = [headers["x-api-key"]] if "x-api-key" in headers else []
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        keys.append(credentials.strip())
    elif scheme.lower() == "basic":
        with contextlib.suppress(ValueError):
            keys.append(b64decode(credentials, validate=True).decode().partition(":")[2])
    return keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
