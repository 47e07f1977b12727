"""The FastAPI application: middleware, endpoints and error handlers; and the server that runs it."""

import contextlib
import hashlib
import hmac
import re
import socket
from base64 import b64decode
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import say
from ciris_scoring.errors import InputError, one_line
from ciris_scoring.marts.asking import NotThere
from ciris_scoring.show.api import metrics, models, pages
from ciris_scoring.show.api.database import Answers, Database
from ciris_scoring.show.api.endpoints import known_parameters, router
from ciris_scoring.show.api.pages import written
from ciris_scoring.show.api.problems import Problem, not_there, shown
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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    sent.setdefault(name, value)
            await send(message)

        return await self.app(scope, receive, send_with_headers)


class Head:
    """Answers HEAD like GET, without a body."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
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


DESCRIPTION = """
The CIRIS Capacity Score of a fleet of agents, read from the published marts. Nothing is computed here.

- Each answer is the document of the fleet or of an agent, as in `ciris-scoring fleet --json` and `explain --json`, with
  the names of the marts' columns. Times are UTC, numbers at full precision, null where the mart has none.
- Scores, factors, history, alerts and parameters also have the names and the nesting of the CIRIS lens API, for its
  clients.
- Errors are problem documents (RFC 9457) with a stable `type`.
- Every answer about scores has an `ETag`: ask again with `If-None-Match`, and get 304 until something new is published.
"""

MOST_CONNECTIONS = 512
"""Number of connections from which on the server answers 503."""
LICENSE = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
TAGS = [
    {"name": "scoring", "description": "Scores, the data behind them, and verdicts on permissions."},
    {"name": "server", "description": "Whether the server works."},
]


def create_app(database: Database, settings: Settings) -> FastAPI:
    """Create the application for a database."""
    answers = Answers(database, settings)
    middleware = [Middleware(Head), Middleware(SecurityHeaders), Middleware(Guard, settings=settings)]
    app = FastAPI(
        title="CIRIS scoring",
        version=version("ciris-scoring"),
        description=DESCRIPTION,
        license_info=LICENSE,
        openapi_tags=TAGS,
        redirect_slashes=False,  # the target of a redirect may not exist behind a proxy
        docs_url=None,  # FastAPI's docs page would load scripts from other servers
        redoc_url=None,
        middleware=middleware,
        exception_handlers={
            Problem: _answer_problem,
            NotThere: _answer_not_there,
            RequestValidationError: _answer_validation,
            HTTPException: _answer_http,
            Exception: _answer_bug,
        },
    )
    app.state.answers = answers
    app.include_router(router, dependencies=[Depends(known_parameters)])
    for routes in (pages.router, metrics.router):
        app.include_router(routes)
    app.openapi = lambda: _openapi(app, settings)  # type: ignore[method-assign]
    return app


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return written(request, error)


async def _answer_not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotThere)
    return written(request, not_there(error))


async def _answer_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"parameter": ".".join(map(str, found["loc"][1:])), "message": _message(found)} for found in error.errors()
    ]
    detail = "; ".join(f"{found['parameter']}: {found['message']}" for found in errors)
    return written(request, Problem("bad-parameter", detail, errors=errors))


def _message(found: dict[str, Any]) -> str:
    given = "" if found["type"] == "missing" else f"is {shown(found['input'])}: "
    return f"{given}{found['msg']}"


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = Problem("not-found", f"There is nothing under {shown(request.url.path)}.")
    if error.status_code == 405:
        problem = Problem("method-not-allowed", "Ask with GET or HEAD.", {"Allow": "GET, HEAD"})
    return written(request, problem)


async def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer an unexpected error. The traceback is in the server's log, not in the answer."""
    response = written(request, Problem("internal", "The server failed; its log says where."))
    # The middleware that adds the security headers does not run after an unexpected error.
    response.headers.update({**SECURITY_HEADERS, **response.headers})
    return response


def _openapi(app: FastAPI, settings: Settings) -> dict[str, Any]:
    document = FastAPI.openapi(app)
    if "securitySchemes" not in document["components"]:
        problem = models.ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
        document["components"]["schemas"] |= {**problem.pop("$defs", {}), "ProblemDocument": problem}
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "description": "The API key."},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The API key."},
        }
        if settings.key is not None:
            for path, operations in document["paths"].items():
                if path.startswith("/api/"):
                    operations["get"]["security"] = [{"bearer": []}, {"header": []}]
    return document


# --- the server ------------------------------------------------------------------------------------------------------


def serve(project: Project, settings: Settings) -> None:
    """Serve the scores of a project until the process is told to stop."""
    with listen(settings.host, settings.port) as listening:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        guarded = "an API key is required" if settings.key is not None else "no API key is required"
        address = f"http://{host}:{listening.getsockname()[1]}"
        # After Ctrl-C, uvicorn stops the server and then raises KeyboardInterrupt.
        with contextlib.suppress(KeyboardInterrupt):
            say(f"Serving {project.schema} on {address}, {guarded}. Stop it with Ctrl-C.")
            server(create_app(Database(project), settings)).run(sockets=[listening])


def server(app: FastAPI) -> uvicorn.Server:
    """Return the server of an application. Run it with the listening socket.

    A proxy must limit the connections and requests of each client (docs/serving.md).
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=5,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket. Raise an InputError if the address does not exist or is in use."""
    try:
        # asyncio sets TCP_NODELAY only on sockets that were created with the protocol number.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen()
        except OSError:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"Cannot serve on {host}, port {port}: {one_line(error)}.",
            "Choose another address with --host and --port.",
        ) from error
    return listening
