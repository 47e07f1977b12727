"""Settings of dbt's sessions.

The settings are not in PGOPTIONS, because poolers refuse or ignore it. This module imports dbt, so it is imported only
where dbt runs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from dbt.adapters.postgres.connections import PostgresConnectionManager

import dbt_postgres_python  # noqa: F401, extends the adapter permanently; must come before the patch below
from ciris_scoring.basics.connection import session_statement
from ciris_scoring.basics.sessions import SESSIONS


@contextmanager
def prepared_sessions(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply these settings to each session that dbt opens in the block, and remove inherited limits."""
    statement = session_statement(settings).as_string(None)
    open_as_dbt_does: Any = PostgresConnectionManager.open

    def open_and_prepare(cls: type[PostgresConnectionManager], connection: Any) -> Any:
        was_open = connection.state == "open"
        opened = open_as_dbt_does(connection)
        if not was_open:
            with opened.handle.cursor() as cursor:
                cursor.execute(f"{statement}; select pg_catalog.pg_backend_pid()")
                [pid] = cursor.fetchone()
            opened.handle.commit()
            SESSIONS.add(pid, opened.handle)
        return opened

    with patch.object(PostgresConnectionManager, "open", classmethod(open_and_prepare)):
        yield
