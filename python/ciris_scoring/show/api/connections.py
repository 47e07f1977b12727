"""Limits of the server: number of connections, time that each may take, and repetitions of log messages."""

import logging
import resource
import socket
import time
import traceback
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 512
"""Maximum number of connections. Half of the process's limit of open files applies if that is smaller."""
REQUEST_SECONDS = 10.0
"""Seconds in which a client must send a complete request, from the start of the connection or the previous answer."""
IDLE_SECONDS = 5
"""Seconds after which a connection without a new request is closed."""
ANSWER_SECONDS = 60.0
"""Seconds within which an answer must be built and received by the client."""
SAID_AGAIN_SECONDS = 10.0
"""Seconds for which the log suppresses repetitions of a message."""
BACKLOG = 2048
"""Length of the queue of connections that are not accepted yet, the default of uvicorn."""


class Connection(H11Protocol):
    """A connection that records how long it has been waiting for a request or an answer."""

    cycle: RequestResponseCycle | None  # type: ignore[assignment]
    _since = 0.0
    _answered: RequestResponseCycle | None = None
    """Request that is being answered. None while the connection waits for a request."""

    def connection_made(self, transport: Any) -> None:
        """Accept a connection. If there are too many, close the connection that has waited longest for a whole
        request."""
        super().connection_made(transport)
        self._since = self.loop.time()
        others: Any = self.connections - {self}
        if len(others) >= most_connections():
            min(others, key=Connection.rank).cut()

    def data_received(self, data: bytes) -> None:
        """Process received bytes of a request."""
        super().data_received(data)
        self._look()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing. Otherwise clients that ask for a protocol upgrade could flood the log with uvicorn's hint."""

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request. If its answer is begun, only close the connection: a request has one answer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # otherwise the endpoint would answer, too
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Process the end of an answer. The client may not have received all of it yet."""
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Restart the clock if a request or an answer is complete."""
        answered = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if answered is not self._answered:
            self._answered = answered
            self._since = self.loop.time()

    def rank(self) -> tuple[bool, float]:
        """Return a sort key: first whether an answer is in progress, then the time since which the connection waits."""
        return self._answered is not None or self.transport.get_write_buffer_size() > 0, self._since

    def cut(self) -> None:
        """Close the connection immediately."""
        self.connections.discard(self)
        self.transport.abort()

    def cut_if_overdue(self) -> None:
        """Close the connection if it exceeds its time limit."""
        is_answered, since = self.rank()
        if self.loop.time() - since > (ANSWER_SECONDS if is_answered else REQUEST_SECONDS):
            self.cut()


class LimitedServer(uvicorn.Server):
    """Server that limits its connections, so that one client cannot block others. Run it with the listening socket."""

    def __init__(self, app: FastAPI):
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                backlog=most_connections() // 4,  # uvicorn accepts this many connections at once
                timeout_keep_alive=IDLE_SECONDS,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # otherwise a client could forge its address and avoid the rate limit
                timeout_graceful_shutdown=5,
            )
        )
        for name in ("asyncio", "uvicorn.error"):
            logging.getLogger(name).addFilter(NOT_AGAIN)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server, and give its listening sockets a queue of ``BACKLOG`` connections."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """Close overdue connections. uvicorn calls this ten times a second."""
        for connection in list(self.server_state.connections):
            connection.cut_if_overdue()  # type: ignore[union-attr]
        return await super().on_tick(counter)


class NotAgain(logging.Filter):
    """Filter that suppresses repeated log messages, so that neither a client nor a bug can flood the log."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[Any, ...], tuple[float, int]] = {}
        """For each message: the time when it was last written, and the number of times it has been suppressed since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a message. The number of suppressed repetitions is added to it."""
        error = record.exc_info[1] if record.exc_info else None
        place = traceback.extract_tb(error.__traceback__)[-1:] if error else []
        said = (record.msg, type(error), *((frame.filename, frame.lineno) for frame in place))
        now = time.monotonic()
        at, n_kept_back = self._said.get(said, (float("-inf"), 0))
        if now - at < SAID_AGAIN_SECONDS:
            self._said[said] = (at, n_kept_back + 1)
            return False
        if n_kept_back:
            record.msg = f"{record.getMessage().rstrip()} ({n_kept_back:,} more like this since it was last written)"
            record.args = None
        if len(self._said) > 1_000:
            self._said.clear()
        self._said[said] = (now, 0)
        return True


NOT_AGAIN = NotAgain()


def most_connections() -> int:
    """Return the maximum number of connections."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if open_files < 0 else min(MOST_CONNECTIONS, open_files // 2)
