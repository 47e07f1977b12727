"""The connections of a server: how many there are, how long each may take, and what the log says of them."""

import logging
import resource
import socket
import time
import traceback
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 512
"""Connections at a time; no more than half of the files that the process may have open."""
REQUEST_SECONDS = 10.0
"""For a request, headers and body, since the connection was made or the last answer was sent."""
IDLE_SECONDS = 5
"""For a connection that sends nothing after an answer."""
ANSWER_SECONDS = 60.0
"""For an answer, to be made and to be taken."""
SAID_AGAIN_SECONDS = 10.0
"""After which the log says again what it has said."""
BACKLOG = 2048
"""Clients that may wait to be let in; uvicorn's own figure."""


class Connection(H11Protocol):
    """A connection that knows since when it owes a request, or is owed an answer."""

    cycle: RequestResponseCycle | None  # type: ignore[assignment]
    _since = 0.0
    _answered: RequestResponseCycle | None = None
    """The request that is being answered."""

    def connection_made(self, transport: Any) -> None:
        """Let the client in; of too many others, the one goes that has owed a request for longest."""
        super().connection_made(transport)
        self._since = self.loop.time()
        others: Any = self.connections - {self}
        if len(others) >= most_connections():
            min(others, key=Connection.rank).cut()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._look()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: uvicorn would advise the log's reader to install a library, whenever a client likes."""

    def on_response_complete(self) -> None:
        """Go on behind an answer, which may not have been taken yet."""
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Count anew where a request is complete, or an answer."""
        answered = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if answered is not self._answered:
            self._answered = answered
            self._since = self.loop.time()

    def rank(self) -> tuple[bool, float]:
        """Whether an answer is on its way, and since when that is so; the smallest is cut first."""
        return self._answered is not None or self.transport.get_write_buffer_size() > 0, self._since

    def cut(self) -> None:
        """Close it at once."""
        self.connections.discard(self)
        self.transport.abort()

    def cut_if_overdue(self) -> None:
        """Close it where it has taken too long."""
        is_answered, since = self.rank()
        if self.loop.time() - since > (ANSWER_SECONDS if is_answered else REQUEST_SECONDS):
            self.cut()


class LimitedServer(uvicorn.Server):
    """The server of an application, whose clients cannot keep others out; it is run with the socket to listen on."""

    def __init__(self, app: FastAPI):
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                backlog=most_connections() // 4,  # so many are let in at once, before others are cut for them
                timeout_keep_alive=IDLE_SECONDS,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # an address that a client says is its own is no address to count by
                timeout_graceful_shutdown=5,
            )
        )
        for name in ("asyncio", "uvicorn.error"):
            logging.getLogger(name).addFilter(NOT_AGAIN)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections, ten times a second."""
        for connection in list(self.server_state.connections):
            connection.cut_if_overdue()  # type: ignore[union-attr]
        return await super().on_tick(counter)


class NotAgain(logging.Filter):
    """Keeps from the log what it has just said, be it of a client that asks nonsense all the time or of a bug."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[Any, ...], tuple[float, int]] = {}
        """When each message was written, and how often it was kept back since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a message; it says how many like it were not written."""
        error = record.exc_info[1] if record.exc_info else None
        place = traceback.extract_tb(error.__traceback__)[-1:] if error else []
        said = (record.msg, type(error), *((frame.filename, frame.lineno) for frame in place))
        now = time.monotonic()
        at, n_kept_back = self._said.get(said, (float("-inf"), 0))
        if now - at < SAID_AGAIN_SECONDS:
            self._said[said] = (at, n_kept_back + 1)
            return False
        if n_kept_back:
            record.msg = (
                f"{record.getMessage().rstrip()} ({n_kept_back:,} more like this since it was last said)"
            )
            record.args = None
        if len(self._said) > 1_000:
            self._said.clear()
        self._said[said] = (now, 0)
        return True


NOT_AGAIN = NotAgain()


def most_connections() -> int:
    """Connections that there may be at a time."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if open_files < 0 else min(MOST_CONNECTIONS, open_files // 2)
