"""Database sessions that this process has opened."""

from typing import Any

_CONNECTIONS: dict[int, Any] = {}
"""Connections of psycopg and psycopg2, by their process ids in the server."""


def add_session(pid: int, connection: Any) -> None:
    """Remember a session of dbt or of :func:`ciris_scoring.basics.connection.connect`."""
    _CONNECTIONS[pid] = connection


def open_sessions() -> list[int]:
    """Return the server process ids of the open sessions, and forget closed sessions."""
    for pid, connection in list(_CONNECTIONS.items()):
        if connection.closed:
            _CONNECTIONS.pop(pid, None)
    return list(_CONNECTIONS)
