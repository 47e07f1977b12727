"""Values that the macros get from Python through dbt's adapter (``dbt_postgres_python``)."""

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from typing import Any

from ciris_scoring import names
from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.certainty import changes, model, steady
from ciris_scoring.database import connection, source_schema, variables
from ciris_scoring.kinds import ALERTS
from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.red_flags import counts, ties
from ciris_scoring.windows import drift, reading

extensions: Any = import_module("psycopg2.extensions")
UUID_OID = 2950
"""PostgreSQL's number of the type uuid."""
CONSTANTS: Mapping[str, Any] = {
    # Sessions and locks
    "settings_of_values": connection.SETTINGS_OF_VALUES,
    "variables": variables.VARIABLES,
    # Sources
    "engine_tables": source_schema.ENGINE_TABLES,
    "tables_of_shape": source_schema.TABLES_OF_SHAPE,
    "required_fields": names.REQUIRED_FIELDS,
    "run_kinds": source_schema.RUN_KINDS,
    "deployment_types": source_schema.DEPLOYMENT_TYPES,
    "actions": (*names.NON_EXEMPT_ACTIONS, *names.EXEMPT_ACTIONS),
    "unknown_mode": names.UNKNOWN_MODE,
    "label_characters": names.HASH_SHOWN,
    # Scores and statistics
    "components": COMPONENT_ROWS,
    "period_hours": {name: length // timedelta(hours=1) for name, length in names.PERIODS.items()},
    "score_bins": drift.N_BINS,
    "drift_metrics": drift.METRICS,
    "score_decimals": decimals.SCORE_DECIMALS,
    "trace_days": steady.TRACE_WINDOWS[-1],
    "gap_days": model.GAP_DAYS,
    # Alerts and red flags
    "alerts": ALERTS,
    "change_days": changes.RECENT_DAYS,
    "red_flag_fields": counts.FIELDS,
    "newest_first": reading.NEWEST_FIRST,
    "absent_score": ties.ABSENT,
    "score_triple_base": ties.BASE,
}
"""Constants that the macros share with Python, each from the module that defines it, by their names in macros."""


def constants() -> Mapping[str, Any]:
    """Return CONSTANTS, for the macro ``constant``.

    The first call also names the type uuid for psycopg2. dbt asks psycopg2 when it checks a contract, and warns of each
    column whose type has no name. Values remain text.
    """
    if UUID_OID not in extensions.string_types:
        extensions.register_type(extensions.new_type((UUID_OID,), "uuid", lambda value, cursor: value))
    return CONSTANTS


def package_version() -> str:
    """Return the version of the installed package, for the check that the macros have the same version."""
    return version("ciris-scoring")
