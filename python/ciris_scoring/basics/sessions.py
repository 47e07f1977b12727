"""Sessions of this process in the server."""

import threading
from typing import Any


class Sessions:
    """Open sessions by their process ids in the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[int, Any] = {}

    def add(self, pid: int, connection: Any) -> None:
        """Add a session with its connection of psycopg or psycopg2."""
        with self._lock:
            self._connections[pid] = connection

    @property
    def pids(self) -> list[int]:
        """Process ids of the open sessions."""
        with self._lock:
            self._connections = {
                pid: connection for pid, connection in self._connections.items() if not connection.closed
            }
            return list(self._connections)


SESSIONS = Sessions()
"""Sessions of dbt and of :func:`ciris_scoring.basics.connection.connect`."""
