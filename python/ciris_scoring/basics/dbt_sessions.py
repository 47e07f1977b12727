"""Sessions of dbt while ``ciris-scoring`` runs it in this process: their settings, and their reuse by later nodes.

The plugin (``dbt_postgres_python``) calls this module when dbt opens or closes a session.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from ciris_scoring.basics.connection import (
    CHECK_CLIENT,
    SEARCH_PATH,
    SETTINGS_NOT_TO_INHERIT,
    session_statement,
)
from ciris_scoring.basics.dbt_patches import is_applied


class DbtSessions:
    """Sessions that dbt opens during one command."""

    def __init__(self, settings: Mapping[str, str]):
        self._settings = {**SETTINGS_NOT_TO_INHERIT, **CHECK_CLIENT, **settings}
        self._ours: list[Any] = []
        """Connections that run only statements of this project or of dbt itself."""
        self._idle: list[Any] = []

    def prepare(self, connection: Any, *, is_ours: bool) -> None:
        """Apply the settings to a session that dbt has just opened.

        :param is_ours: whether the session runs only statements of this project or of dbt itself.
        """
        handle = connection.handle
        self._apply(handle, connection.credentials.role, is_ours=is_ours)
        if is_ours:
            self._ours.append(handle)

    def reuse(self, connection: Any) -> bool:
        """Give a connection the session of an earlier node, in the state of a new session. Return False if there is
        none. A session that the server has ended is skipped."""
        while True:
            try:
                handle = self._idle.pop()
            except IndexError:  # another thread may have taken the last one
                return False
            try:
                self._apply(
                    handle,
                    connection.credentials.role,
                    is_ours=True,
                    begin="discard temp; reset role; reset all; ",
                )
            except handle.Error:
                handle.close()
                continue
            connection.handle, connection.state = handle, "open"
            return True

    def keep(self, connection: Any) -> bool:
        """Keep the session of a connection that dbt closes, for the next node. Return False if dbt must close it."""
        if connection.state != "open" or not is_applied("sessions"):
            return False
        handle = connection.handle
        if handle not in self._ours or handle.closed:
            return False
        try:
            _end_transaction(handle)
        except handle.Error:
            return False
        connection.handle, connection.state, connection.transaction_open = None, "closed", False
        self._idle.append(handle)
        return True

    def close(self) -> None:
        """Close the sessions that are kept."""
        for handle in self._idle:
            handle.close()

    def _apply(self, handle: Any, role: str | None, *, is_ours: bool, begin: str = "") -> None:
        """Apply all settings in one statement and one transaction. The role is set last, because only the user of the
        login may have the right to lift a limit."""
        path = {"search_path": SEARCH_PATH} if is_ours else {}
        statement = session_statement({**self._settings, **path}).as_string(None)
        # The role is not quoted, as in dbt and in basics/connection.py.
        role_statement = f"set role {role}; " if role else ""
        # dbt sets the role in a transaction that it does not commit.
        _end_transaction(handle)
        before = handle.autocommit
        if handle.status == _psycopg2().STATUS_READY:
            handle.autocommit = True
        # Otherwise dbt has sent the text "commit". psycopg2 does not know that, and will not send "begin" itself.
        with handle.cursor() as cursor:
            cursor.execute(f"{begin}{statement}; {role_statement}")
        if handle.autocommit != before:
            handle.autocommit = before


def _end_transaction(handle: Any) -> None:
    """Roll back if a transaction is open in the server."""
    if handle.info.transaction_status != _psycopg2().TRANSACTION_STATUS_IDLE:
        handle.rollback()


def _psycopg2() -> Any:
    return import_module("psycopg2.extensions")


_current: DbtSessions | None = None


def current() -> DbtSessions | None:
    """Return the sessions of the command that ``ciris-scoring`` runs; None in plain dbt."""
    return _current


@contextlib.contextmanager
def prepared_sessions(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply the usual settings, and ``settings``, to each session that dbt opens in the block.

    The settings are not passed in PGOPTIONS, because poolers refuse or ignore it.
    """
    global _current
    encoding, outer = os.environ.get("PGCLIENTENCODING"), _current
    os.environ["PGCLIENTENCODING"] = "UTF8"
    _current = sessions = DbtSessions(settings)
    try:
        yield
    finally:
        _current = outer
        sessions.close()
        del os.environ["PGCLIENTENCODING"]
        if encoding is not None:
            os.environ["PGCLIENTENCODING"] = encoding
