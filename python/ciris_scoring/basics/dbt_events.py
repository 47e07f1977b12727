"""Drop dbt's debug events, which nothing reads.

This module imports dbt, so it is imported only where dbt runs.
"""

import os
from typing import Any

from dbt.events.types import NodeFinished
from dbt_common.events.base_types import BaseEvent, DebugLevel, EventLevel
from dbt_common.events.event_manager import EventManager
from dbt_common.events.event_manager_client import ctx_set_event_manager


class _WithoutDebug(EventManager):
    """Event manager that passes on only one kind of debug event, the one for progress.

    dbt formats several debug events per statement, which takes a tenth of a run.
    """

    def fire_event(
        self, e: BaseEvent, level: EventLevel | None = None, *arguments: Any, **options: Any
    ) -> None:
        if level is not None or not isinstance(e, DebugLevel) or isinstance(e, NodeFinished):
            super().fire_event(e, level, *arguments, **options)


def leave_out_debug_messages() -> None:
    """Drop debug events, unless DBT_DEBUG is set."""
    if not os.environ.get("DBT_DEBUG"):
        ctx_set_event_manager(_WithoutDebug())
