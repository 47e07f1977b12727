"""Run Python models on PostgreSQL in dbt's own process, in the session and transaction of their materialization.

dbt imports every installed module named ``dbt_...``, in every project of the environment. So this module imports
only dbt at its top.

It extends the PostgreSQL adapter, so profiles keep ``type: postgres``. It adds the three properties that dbt needs to
run a Python model, and methods for the project's macros (``METHODS_FOR_MACROS``). It also sets the search path
pg_catalog in the sessions of the project's nodes, and in those in which dbt reads the catalog, from their first
statement on. Nodes of other projects keep their search path. Every session keeps the role of the profile.

``model(dbt, session)`` gets dbt's DB-API connection as ``session``. It may fill temporary tables, and returns the query
that selects its rows. The materialization reads that query from the response of the statement.
"""

import atexit
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection
from dbt.adapters.postgres.connections import PostgresConnectionManager
from dbt.adapters.postgres.impl import PostgresAdapter
from dbt.flags import get_flags
from dbt_common.exceptions import CompilationError, DbtDatabaseError

METHOD = "in_process"
"""Value of dbt's setting ``submission_method`` for Python models on PostgreSQL."""
SAFE_PATH = "set search_path to pg_catalog, pg_temp"
"""Statement for the search path ``basics.connection.SEARCH_PATH``, which cannot be imported here."""
UUID_OID = 2950
"""PostgreSQL's number of the type uuid."""
CATALOG_SESSIONS = ("list_", "create_", "generate_catalog")
"""Prefixes of the names of sessions in which dbt runs only its own statements."""


@dataclass
class QueryResponse(AdapterResponse):
    """Response of a Python model: the query that selects its rows."""

    query: str = ""


class InProcess:
    """Runner of the compiled code of a Python model."""

    def __init__(self, adapter: PostgresAdapter, model: dict[str, Any]):
        self._adapter, self._model = adapter, model

    def submit(self, compiled_code: str) -> str:
        """Run the model and return the query that selects its rows.

        :raises DbtDatabaseError: a statement of the model failed.
        :raises DbtRuntimeError: the model raised another error.
        """
        scope: dict[str, Any] = {"__name__": "dbt_python_model"}
        connections = self._adapter.connections
        with connections.exception_handler(f"Python model {self._model['name']}"):
            exec(compile(compiled_code, self._model["original_file_path"], "exec"), scope)
            dbt = scope["dbtObj"](lambda relation: relation)
            query: str = scope["model"](dbt, connections.get_thread_connection().handle)
        return query


def _calling(path: str, *attributes: str) -> Any:
    """Return a method of the adapter that calls a function of the package.

    :param path: module and name of the function. The module is imported when the method is called.
    :param attributes: attributes of the adapter, the first arguments of the function. The macro gives the other
        arguments.
    """
    module, _, name = path.rpartition(".")

    def method(self: PostgresAdapter, *arguments: Any) -> Any:
        from ciris_scoring.basics.errors import CirisError

        function = getattr(import_module(f"ciris_scoring.{module}"), name)
        try:
            return function(*(attrgetter(attribute)(self) for attribute in attributes), *arguments)
        except CirisError as error:
            raise CompilationError(f"{error.message} {error.hint}") from error

    return method


METHODS_FOR_MACROS = {
    "ciris_scoring_version": _calling("job.for_macros.package_version"),
    "ciris_scoring_constants": _calling("job.for_macros.constants"),
    "ciris_scoring_ownership_query": _calling("basics.ownership.ownership_query"),
    "ciris_scoring_log_entry": _calling("job.run_log.entry_text"),
    "ciris_scoring_variable_fault": _calling("basics.variables.variable_fault"),
    "ciris_scoring_faults_of_variables": _calling("basics.variables.faults", "config"),
    "ciris_scoring_time": _calling("basics.variables.time_of"),
    "ciris_scoring_pooler": _calling("basics.connection.fault_of_pooler", "config.credentials"),
}
"""Methods of the adapter that the project's macros call, by name."""


def _extend(adapter: Any) -> None:
    adapter.python_submission_helpers = property(
        lambda self: {METHOD: lambda model, credentials: InProcess(self, model)}
    )
    adapter.default_python_submission_method = property(lambda self: METHOD)
    adapter.generate_python_submission_response = lambda self, query: QueryResponse(_message="PYTHON", query=query)
    for name, method in METHODS_FOR_MACROS.items():
        setattr(adapter, name, method)
    adapter._available_ = adapter._available_ | METHODS_FOR_MACROS.keys()


def _has_safe_path(session: str) -> bool:
    """Return whether a session runs only statements of this project or of dbt itself, by dbt's name of the session."""
    kind, _, rest = session.partition(".")
    return rest.startswith("ciris_scoring.") or rest == "information_schema" or kind.startswith(CATALOG_SESSIONS)


def _is_shared(connection: Connection) -> bool:
    """Return whether a pooler gives the session to other clients too. They would get the settings of the session, so
    the macro check_server refuses the run later."""
    handle = connection.handle
    with handle.cursor() as cursor:
        cursor.execute("select pg_catalog.pg_backend_pid()")
        [pid] = cursor.fetchone()
    handle.rollback()
    if pid == handle.info.backend_pid:  # a pooler reports a pid that is not that of the server process
        return False
    from ciris_scoring.basics.connection import fault_of_pooler

    return fault_of_pooler(connection.credentials) is not None


_adapter: Any = PostgresAdapter
_manager: Any = PostgresConnectionManager
_open_session, _release_session = _manager.open.__func__, _manager.release
_create_schema, _link = _adapter.create_schema, _adapter._link_cached_relations


def _open_with_settings(cls: Any, connection: Connection) -> Connection:
    """Open a session with the settings that must survive a rollback. dbt sets the role of the profile in a transaction
    that it does not commit, so the next rollback would undo it."""
    from ciris_scoring.basics.dbt_sessions import current

    is_new, is_safe = connection.state != "open", _has_safe_path(str(connection.name))
    sessions = current()
    if is_new and is_safe and sessions is not None and sessions.reuse(connection):
        return connection
    opened: Connection = _open_session(cls, connection)
    role = getattr(opened.credentials, "role", None)
    if is_new and sessions is not None:
        sessions.prepare(opened, is_ours=is_safe)
    elif is_new and (is_safe or role) and not _is_shared(opened):
        from ciris_scoring.basics.connection import LIFT_LIMITS

        with opened.handle.cursor() as cursor:
            if is_safe:
                cursor.execute(SAFE_PATH)
                cursor.execute(LIFT_LIMITS)
            if role:
                cursor.execute(f"set role {role}")
        if not opened.handle.autocommit:
            opened.handle.commit()
    return opened


def _release_or_keep(self: Any) -> None:
    """Close the session of this thread, or keep it for the next node."""
    from ciris_scoring.basics.dbt_sessions import current

    sessions, connection = current(), self.get_if_exists()
    if sessions is None or connection is None or not sessions.keep(connection):
        _release_session(self)


def _create_schema_once(self: Any, relation: Any) -> None:
    """Create a schema, or let a process that started together with this one create it."""
    try:
        _create_schema(self, relation)
    except DbtDatabaseError as error:
        # If two processes create a schema at the same time, "if not exists" does not prevent this error.
        if "pg_namespace_nspname_index" not in str(error):
            raise


def _link_with_safe_path(self: Any, manifest: Any) -> None:
    """Set the search path for dbt's query of the catalog in the session of hooks, which other projects may share."""
    self.execute(SAFE_PATH)
    _link(self, manifest)
    self.execute("reset search_path")


def _save_time() -> None:
    """Apply the patches that also help plain dbt, if the project is this one or uses it as a package."""
    from ciris_scoring.basics import dbt_patches

    flags = get_flags()
    project = Path(getattr(flags, "PROJECT_DIR", None) or ".")
    files = (project / "dbt_project.yml", project / "dbt_packages" / "ciris_scoring" / "dbt_project.yml")
    if any(file.is_file() and "name: ciris_scoring\n" in file.read_text("utf-8") for file in files):
        target_folder = project / (getattr(flags, "TARGET_PATH", None) or "target")
        dbt_patches.keep_calendars()
        dbt_patches.keep_templates()
        dbt_patches.load_templates(target_folder)
        atexit.register(dbt_patches.save_templates, target_folder)


def _name_uuid() -> None:
    """Name the type uuid for dbt's contracts: psycopg2 does not know it, and dbt --warn-error stops at unknown types.
    Values remain text."""
    types: Any = import_module("psycopg2.extensions")
    if UUID_OID not in types.string_types:
        types.register_type(types.new_type((UUID_OID,), "uuid", lambda value, cursor: value))


_extend(_adapter)
_name_uuid()
_save_time()
_manager.open, _manager.release = classmethod(_open_with_settings), _release_or_keep
_adapter._link_cached_relations = _link_with_safe_path
_adapter.create_schema = _create_schema_once
