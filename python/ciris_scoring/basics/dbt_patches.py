"""Changes to dbt while it runs in this process: settings of its sessions, and debug events that nothing reads.

This module imports dbt, so it is imported only where dbt runs.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from dbt.adapters.postgres.connections import PostgresConnectionManager
from dbt.events.types import NodeFinished
from dbt_common.events.base_types import BaseEvent, DebugLevel, EventLevel
from dbt_common.events.event_manager import EventManager
from dbt_common.events.event_manager_client import ctx_set_event_manager

import dbt_postgres_python  # noqa: F401, extends the adapter permanently; must come before the patch below
from ciris_scoring.basics.connection import CHECK_CLIENT, SETTINGS_NOT_TO_INHERIT, session_statement
from ciris_scoring.basics.profile import dbt_variable
from ciris_scoring.basics.sessions import add_session


@contextmanager
def prepared_sessions(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply the usual settings, and ``settings``, to each session that dbt opens in the block.

    The settings are not passed in PGOPTIONS, because poolers refuse or ignore it.
    """
    statement = session_statement({**SETTINGS_NOT_TO_INHERIT, **CHECK_CLIENT, **settings}).as_string(None)
    open_as_dbt_does: Any = PostgresConnectionManager.open

    def open_and_prepare(cls: type[PostgresConnectionManager], connection: Any) -> Any:
        was_open = connection.state == "open"
        opened = open_as_dbt_does(connection)
        if not was_open:
            with opened.handle.cursor() as cursor:
                cursor.execute(f"{statement}; select pg_catalog.pg_backend_pid()")
                [pid] = cursor.fetchone()
            opened.handle.commit()
            add_session(pid, opened.handle)
        return opened

    before = os.environ.get("PGCLIENTENCODING")
    os.environ["PGCLIENTENCODING"] = "UTF8"
    try:
        with patch.object(PostgresConnectionManager, "open", classmethod(open_and_prepare)):
            yield
    finally:
        del os.environ["PGCLIENTENCODING"]
        if before is not None:
            os.environ["PGCLIENTENCODING"] = before


class _WithoutDebug(EventManager):
    """Event manager that passes on only one kind of debug event, the one for progress.

    dbt formats several debug events per statement, which takes a tenth of the time of a run.
    """

    def fire_event(
        self, e: BaseEvent, level: EventLevel | None = None, *arguments: Any, **options: Any
    ) -> None:
        if level is not None or not isinstance(e, DebugLevel) or isinstance(e, NodeFinished):
            super().fire_event(e, level, *arguments, **options)


def leave_out_debug_messages() -> None:
    """Drop debug events, unless DBT_DEBUG is set."""
    if not dbt_variable("DEBUG"):
        ctx_set_event_manager(_WithoutDebug())
