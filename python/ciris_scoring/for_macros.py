"""The constants that the macros share with Python, each from the module that defines it.

dbt's adapter hands them to the macro ``constant`` (``dbt_postgres_python``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ciris_scoring.basics import connection, run_lock

CONSTANTS: Mapping[str, Any] = MappingProxyType(
    {
        "settings_of_values": connection.SETTINGS_OF_VALUES,
        "settings_not_to_inherit": connection.SETTINGS_NOT_TO_INHERIT,
        "settings_on_cluster": connection.SETTINGS_ON_CLUSTER,
        "lift_limits": connection.LIFT_LIMITS,
        "search_path": connection.SEARCH_PATH,
        "run_lock": run_lock.RUN_LOCK,
        "writers_lock": run_lock.WRITERS_LOCK,
    }
)
"""By the name that macros use."""
