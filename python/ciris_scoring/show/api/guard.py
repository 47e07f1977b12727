"""Middleware before the endpoints: allowed host names, API key and security headers."""

import contextlib
import hashlib
import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ciris_scoring.show.api.pages import written
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.api.settings import Settings, is_loopback

HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z.-]+))(?::\d*)?")
"""A Host header in lower case: an IPv6 address in brackets, or a name, then perhaps a port."""
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths for probes, which do not need a key."""
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
    """Normalizes requests: HEAD becomes GET without a body, and a slash at the end of a path is removed."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
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
    """Checks host name and API key of a request."""

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app = app
        self.settings = settings
        self.key_digest = _digest(settings.key) if settings.key is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            if scope["path"] not in OPEN_PATHS and not self._has_key(headers):
                # CORS preflight requests, which have no key, are answered by another middleware before this one.
                raise Problem(
                    "key-required",
                    "Send the API key as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as a password.",
                    {"WWW-Authenticate": 'Bearer, Basic realm="ciris-scoring", charset="UTF-8"'},
                )
        except Problem as problem:
            return await written(Request(scope), problem)(scope, receive, send)
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


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return a function that sends messages and adds the headers that an answer does not set itself."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent = MutableHeaders(scope=message)
            for name, value in headers.items():
                sent.setdefault(name, value)
        await send(message)

    return send_with_headers


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
