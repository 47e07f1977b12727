"""Changes to dbt in this process that save time. They do not change results.

Each patch replaces private parts of a library, so it is applied only with the dbt version for which it was written. The
environment variable ``CIRIS_DBT_PATCHES`` names the patches to apply, separated by commas; ``none`` applies none.

This module is imported before dbt, so its functions import dbt.
"""

import os
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ciris_scoring.basics.profile import dbt_variable

SWITCH = "CIRIS_DBT_PATCHES"
DBT_VERSION = "1.11."
"""Beginning of the versions of dbt-core for which the patches were written."""
PATCHES = ("classes", "templates", "calendars", "flags", "events", "sessions")
"""Names of the patches. ``sessions`` is in :mod:`ciris_scoring.basics.dbt_sessions`."""


def is_applied(name: str) -> bool:
    """Return whether a patch is applied: the installed dbt has the version, and the switch does not exclude it."""
    named = os.environ.get(SWITCH, "").replace(" ", "").split(",")
    return (named == [""] or name in named) and version("dbt-core").startswith(DBT_VERSION)


@cache
def before_import() -> None:
    """Compile the conversions of mashumaro's classes at their first use (mashumaro 3).

    dbt and its libraries define hundreds of such classes, and a run uses few of them. dbt sets this for its own classes
    already. It must be set before dbt is imported.
    """
    if is_applied("classes"):
        from mashumaro.config import BaseConfig

        BaseConfig.lazy_compilation = True


@cache
def keep_calendars() -> None:
    """Create parsedatetime's tables once per locale (agate 1).

    dbt converts the result of each query by agate, which creates three such tables each time. dbt never reads them,
    because it gives agate the formats of dates.
    """
    if is_applied("calendars"):
        parsedatetime: Any = import_module("parsedatetime")
        parsedatetime.Constants = cache(parsedatetime.Constants)


@cache
def leave_out_origins() -> None:
    """Do not look up which line of dbt defines a behaviour flag (dbt-common 1). dbt reads the source of the whole call
    stack for it at each start, and shows it only in a message about a flag that is not set."""
    if is_applied("flags"):
        from dbt_common.behavior_flags import BehaviorFlagRendered

        flag: Any = BehaviorFlagRendered
        flag._default_source = staticmethod(lambda: "dbt")


@cache
def keep_templates() -> None:
    """Keep compiled Jinja templates in memory and, by :func:`save_templates`, in the target folder (jinja2 3)."""
    if is_applied("templates"):
        from dbt_common.clients import jinja

        from ciris_scoring.basics import dbt_templates

        environment: Any = jinja.MacroFuzzEnvironment
        compile_always = environment.compile

        def compile_once(self: Any, source: Any, *arguments: Any, **options: Any) -> Any:
            if arguments or options or jinja.MACRO_DEBUGGING or not isinstance(source, str):
                return compile_always(self, source, *arguments, **options)
            return dbt_templates.compiled(type(self).__name__, source, lambda: compile_always(self, source))

        environment.compile = compile_once


def load_templates(target_folder: Path) -> None:
    """Read the templates that an earlier process compiled."""
    if is_applied("templates"):
        from ciris_scoring.basics import dbt_templates

        dbt_templates.load(target_folder)


def save_templates(target_folder: Path) -> None:
    """Write the templates that were compiled in this process into the target folder of a project."""
    if is_applied("templates"):
        from ciris_scoring.basics import dbt_templates

        dbt_templates.save(target_folder)


def leave_out_debug_messages() -> None:
    """Drop debug events, unless DBT_DEBUG is set, and create the message of an event only if it is read (dbt-common 1).

    dbt creates and formats several debug events per statement. A run reads only one kind, for its progress.
    """
    if not dbt_variable("DEBUG") and is_applied("events"):
        from dbt_common.events.event_manager_client import ctx_set_event_manager

        _create_messages_late()
        ctx_set_event_manager(_event_manager_without_debug()())


@cache
def _event_manager_without_debug() -> Any:
    from dbt.events.types import NodeFinished
    from dbt_common.events.base_types import DebugLevel
    from dbt_common.events.event_manager import EventManager

    class WithoutDebug(EventManager):
        """Event manager that passes on only one kind of debug event, the one for progress."""

        def fire_event(self, e: Any, level: Any = None, *arguments: Any, **options: Any) -> None:
            if level is not None or not isinstance(e, DebugLevel) or isinstance(e, NodeFinished):
                super().fire_event(e, level, *arguments, **options)

    return WithoutDebug


@cache
def _create_messages_late() -> None:
    """Create the protobuf message of a debug event when something reads or changes the event."""
    from dbt_common.events.base_types import BaseEvent, DebugLevel

    event_class: Any = BaseEvent
    create, read, change = event_class.__init__, event_class.__getattr__, event_class.__setattr__

    def create_late(self: Any, *arguments: Any, **values: Any) -> None:
        if isinstance(self, DebugLevel):
            self.__dict__["_values"] = arguments, values
        else:
            create(self, *arguments, **values)

    def create_now(self: Any) -> None:
        arguments, values = self.__dict__.pop("_values", ((), None))
        if values is not None:
            create(self, *arguments, **values)

    def create_and_read(self: Any, name: str) -> Any:
        create_now(self)
        return self.__dict__["pb_msg"] if name == "pb_msg" and "pb_msg" in self.__dict__ else read(self, name)

    def create_and_change(self: Any, name: str, value: Any) -> None:
        if name != "pb_msg":
            create_now(self)
        change(self, name, value)

    event_class.__init__, event_class.__getattr__ = create_late, create_and_read
    event_class.__setattr__ = create_and_change
