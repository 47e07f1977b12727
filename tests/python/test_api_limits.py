"""Tests of the server against harmful clients: many connections, requests that never end, repeated log messages."""

import asyncio
import contextlib
import http.client
import itertools
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest
from fastapi import FastAPI
from starlette.responses import Response, StreamingResponse

from ciris_scoring.show.api import connections
from ciris_scoring.show.api.app import create_app
from ciris_scoring.show.api.connections import NotAgain
from ciris_scoring.show.api.database import Database as ServedDatabase
from ciris_scoring.show.api.settings import Settings
from serving import KEY, running

HALF_A_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "
POST = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
WHOLE_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def app(served: ServedDatabase) -> FastAPI:
    return create_app(served, Settings())


# --- a flood of connections ------------------------------------------------------------------------------------------


def status_of(port: int, path: str, key: str = KEY) -> int:
    """Return the status of an answer over a new connection."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path, headers={"X-API-Key": key})
        response = connection.getresponse()
        response.read()
        return response.status


def test_server_answers_during_a_flood(served, monkeypatch, capfd):
    """A client opens more connections than the server allows and keeps them. Another client gets all its answers."""
    n_flood, most = 80, 50
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", most)
    with running(create_app(served, Settings(key=KEY))) as port, contextlib.ExitStack() as flood:
        assert [status_of(port, "/?_key=hidden", key) for key in ("", "wrong-" + KEY)] == [401, 401]
        held = []
        for number in range(n_flood):
            held.append(flood.enter_context(socket.create_connection(("127.0.0.1", port))))
            held[-1].sendall(HALF_A_REQUEST if number % 2 else b"")
            if number % 10 == 0:
                for path in ("/healthz", "/api/v1/scoring/capacity/Link?_key=hidden", "/"):
                    assert status_of(port, path) == 200
        # The server closes the oldest connections. Reading from a connection waits until it is closed.
        assert [connection.recv(1) for connection in held[: n_flood - most]] == [b""] * (n_flood - most)
        assert status_of(port, "/healthz") == 200
    said = capfd.readouterr().err
    assert not any(text in said for text in (KEY, "hidden", "Traceback"))


# --- malformed requests ----------------------------------------------------------------------------------------------


def answer_to(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        # RFC 9112, 3.2.2: a server must accept an absolute URI and use its host.
        (b"HTTP://127.0.0.1:8000/api/v1/scoring/parameters?_=1", b"elsewhere.example", 200),
        (b"http://localhost?days=7", b"elsewhere.example", 200),
        (b"http://elsewhere.example/healthz", b"localhost", 421),
        (b"http://127.0.0.1:80@elsewhere.example/healthz", b"localhost", 421),
        *((b"/healthz", host, 421) for host in (b"[::1]elsewhere.example", b"[::1%elsewhere.example]", b"[::1")),
        *((b"/healthz", host, 421) for host in (b"localhost:elsewhere.example", b"localhost:80:80", b"[localhost]")),
        *((b"/healthz", host, 200) for host in (b"[::1]", b"[::1]:80", b"LocalHost:8000", b"127.8.8.8:")),
        (b"/healthz", b"localhost\r\nUpgrade: websocket\r\nConnection: Upgrade", 200),
        (b"/healthz", b"localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked", 400),
    ],
)
def test_unusual_request_gets_one_answer_and_is_not_logged(app, capsys, target, host, status):
    request = b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    more = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" if status == 400 else b""
    with running(app) as port:
        answer = answer_to(port, request + more)
    assert int(answer.split()[1]) == status and answer.count(b"HTTP/1.1") == 1
    assert (b"urn:ciris-scoring:problem:contradictory-request" in answer) is (status == 400)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("path", "is_in_one_packet"), [(b"/healthz", True), (b"/healthz", False), (b"/slow", False)])
@pytest.mark.parametrize("chunk", [b"zz\r\n\r\n", b"5\r\nhelloworld\r\n0\r\n\r\n", b"0\r\n: x\r\n\r\n"])
def test_malformed_chunk_closes_the_connection_after_at_most_one_answer(
    served, capsys, caplog, path, is_in_one_packet, chunk
):
    """The answer may not be begun, be in progress, or be sent, when the server reads the malformed chunk."""

    async def slowly() -> AsyncIterator[bytes]:
        for part in (b"begun", b"ended"):
            yield part
            await asyncio.sleep(0.5)

    app = create_app(served, Settings())
    app.add_route("/slow", lambda request: StreamingResponse(slowly()))
    head = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    connections.NOT_AGAIN._said.clear()
    with running(app) as port, socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head + chunk if is_in_one_packet else head)
        if not is_in_one_packet:
            time.sleep(0.2)
            connection.sendall(chunk)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.count(b"HTTP/1.1 ") == 1
    said = capsys.readouterr().err
    assert said.splitlines() == ["WARNING:  Invalid HTTP request received."]
    assert [record for record in caplog.records if record.name == "asyncio"] == []


# --- time limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [(), (HALF_A_REQUEST, b"x"), (POST, b"x"), (WHOLE_REQUEST, HALF_A_REQUEST, b"x"), (WHOLE_REQUEST, b"")],
    ids=["nothing", "headers drop by drop", "a body drop by drop", "after an answer", "idle"],
)
def test_slow_request_is_disconnected(app, monkeypatch, sent):
    """The time limit under test is half a second. The other time limit is an hour and has no effect."""
    is_idle = sent[-1:] == (b"",)
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 3600 if is_idle else 0.5)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5 if is_idle else 3600)
    with running(app) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(0.05)
        begun = time.monotonic()
        for part in itertools.chain(sent, itertools.repeat(sent[-1] if sent else b"")):
            try:
                connection.sendall(part)
                while connection.recv(65_536):
                    pass
                break
            except TimeoutError:
                assert time.monotonic() < begun + 120, "it is never closed"
            except OSError:
                break
        assert time.monotonic() - begun > 0.4


def test_client_that_does_not_receive_its_answer_is_disconnected(served, monkeypatch):
    """Sending an answer has a separate time limit. The limits of requests and idle connections do not apply."""
    cut = threading.Event()
    monkeypatch.setattr(connections.Connection, "cut", lambda self: (self.transport.abort(), cut.set()))
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.3)
    large = create_app(served, Settings())
    size = 20_000_000
    large.add_route("/large", lambda request: Response(b"x" * size))

    def received(port: int, wait: Callable[[], object]) -> int:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait()
            n_read = 0
            with contextlib.suppress(ConnectionResetError):
                while n_read < size and (data := connection.recv(1_000_000)):
                    n_read += len(data)
            return n_read

    with running(large) as port:
        assert received(port, lambda: time.sleep(1)) >= size
        monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.5)
        assert received(port, lambda: cut.wait(120)) < size and cut.is_set()


# --- repeated log messages -------------------------------------------------------------------------------------------


def test_repeated_log_messages_are_suppressed(monkeypatch):
    now = 100.0
    monkeypatch.setattr(connections.time, "monotonic", lambda: now)
    only_new = NotAgain()

    def written(message: str) -> str | None:
        record = logging.makeLogRecord({"msg": message, "args": ("files",)})
        return record.getMessage() if only_new.filter(record) else None

    assert [written("no %s") for _ in range(1_501)] == ["no files", *[None] * 1_500]
    assert written("more %s") == "more files"
    now += connections.SAID_AGAIN_SECONDS
    assert written("no %s") == "no files (1,500 more like this since it was last written)"
    assert written("more %s") == "more files"
