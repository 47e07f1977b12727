"""Clients that ask a server one question after the other over connections that they keep."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Load:
    """What a load came to."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    n_errors: int
    """Answers other than 200 and 304, and requests without one."""


def put_load(port: int, requests: Sequence[bytes], n_requests: int, n_clients: int) -> Load:
    """Send requests from several clients at once, each waiting for its answer before the next.

    :param port: of a server on 127.0.0.1.
    :param requests: whole HTTP requests, sent in turn.
    :param n_requests: how many in all.
    """
    return asyncio.run(_put_load(port, requests, n_requests, n_clients))


def request(path: str, *headers: str) -> bytes:
    """Write a request."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


async def _put_load(port: int, requests: Sequence[bytes], n_requests: int, n_clients: int) -> Load:
    milliseconds: NDArray[np.float64] = np.full(n_requests, np.nan)
    turns = iter(range(n_requests))
    loop = asyncio.get_running_loop()
    clients = [_Client(requests, turns, milliseconds, loop) for _ in range(n_clients)]
    begun = time.perf_counter()
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*(client.done for client in clients))
    seconds = time.perf_counter() - begun
    answered = milliseconds[~np.isnan(milliseconds)]
    p50, p99 = np.percentile(answered, [50, 99]) if answered.size else (np.nan, np.nan)
    n_errors = sum(client.n_errors for client in clients)
    return Load(answered.size / seconds, float(p50), float(p99), n_errors)


class _Client(asyncio.Protocol):
    """Sends a request, counts the bytes of its answer, and goes on with the next."""

    def __init__(
        self,
        requests: Sequence[bytes],
        turns: Iterator[int],
        milliseconds: NDArray[np.float64],
        loop: asyncio.AbstractEventLoop,
    ):
        self.requests = requests
        self.turns = turns
        self.milliseconds = milliseconds
        self.done: asyncio.Future[None] = loop.create_future()
        self.n_errors = 0
        self._head = b""
        self._missing = 0
        """Bytes of the body that have not come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            status = head[9:12]
            self.n_errors += status not in (b"200", b"304")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._missing = (0 if status == b"304" else int(length or 0)) - len(body)
        if self._missing == 0:
            self.milliseconds[self._turn] = (time.perf_counter() - self._begun) * 1000
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.n_errors += 1
            self.done.set_result(None)

    def _ask(self) -> None:
        turn = next(self.turns, None)
        if turn is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._turn = turn
        self._head = b""
        self._begun = time.perf_counter()
        self._transport.write(self.requests[turn % len(self.requests)])
