"""Drops dbt's debug events, which nobody reads.

Imports dbt, so it is imported where dbt is to run.
"""

import os
from typing import Any

from dbt.events.types import NodeFinished
from dbt_common.events.base_types import BaseEvent, DebugLevel, EventLevel
from dbt_common.events.event_manager import EventManager
from dbt_common.events.event_manager_client import ctx_set_event_manager


class _WithoutDebug(EventManager):
    """Passes on no debug message but the one for progress: formatting several per statement is a tenth of a run."""

    def fire_event(
        self, e: BaseEvent, level: EventLevel | None = None, *arguments: Any, **options: Any
    ) -> None:
        if level is not None or not isinstance(e, DebugLevel) or isinstance(e, NodeFinished):
            super().fire_event(e, level, *arguments, **options)


def leave_out_debug_messages() -> None:
    """Drop debug messages, unless DBT_DEBUG asks for them."""
    if not os.environ.get("DBT_DEBUG"):
        ctx_set_event_manager(_WithoutDebug())
