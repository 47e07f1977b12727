"""Runs Python models on PostgreSQL in dbt's own process, in the session and transaction of their materialization.

dbt imports every installed module named ``dbt_...``, in every project of the environment, so this one imports only dbt.
It gives the PostgreSQL adapter the three properties that dbt needs to run a Python model, and four methods for the
project's macros: ``ciris_scoring_version``, the package's version; ``ciris_scoring_components``, the rows of
``seeds/components.csv``; ``ciris_scoring_constants``, the constants that SQL and Python share; and
``ciris_scoring_pooler``, the reason why a pooler is unfit.

``model(dbt, session)`` gets dbt's connection (DB-API) as ``session``, may fill temporary tables, and returns the query
of its rows, which the materialization finds in the response of the statement.
"""

from dataclasses import dataclass
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.postgres.connections import PostgresConnectionManager
from dbt.adapters.postgres.impl import PostgresAdapter

METHOD = "in_process"


@dataclass
class QueryResponse(AdapterResponse):
    """The answer of a Python model: the query of its rows."""

    query: str = ""


class InProcess:
    """Runs the compiled code of one Python model."""

    def __init__(self, adapter: PostgresAdapter, model: dict[str, Any]):
        self._adapter, self._model = adapter, model

    def submit(self, compiled_code: str) -> str:
        """Run the model and return the query of its rows.

        :raises DbtRuntimeError: the model failed; its transaction is rolled back.
        """
        scope: dict[str, Any] = {"__name__": "dbt_python_model"}
        connections = self._adapter.connections
        with connections.exception_handler(f"Python model {self._model['name']}"):
            exec(compile(compiled_code, self._model["original_file_path"], "exec"), scope)
            dbt = scope["dbtObj"](lambda relation: relation)
            query: str = scope["model"](dbt, connections.get_thread_connection().handle)
        return query


def _version(self: PostgresAdapter) -> str:
    from importlib.metadata import version

    return version("ciris-scoring")


def _components(self: PostgresAdapter) -> Any:
    from ciris_scoring.basics.components import COMPONENT_ROWS

    return COMPONENT_ROWS


def _constants(self: PostgresAdapter) -> Any:
    from ciris_scoring.for_macros import CONSTANTS

    return CONSTANTS


def _pooler(self: PostgresAdapter) -> str | None:
    from ciris_scoring.basics.connection import fault_of_pooler

    return fault_of_pooler(self.config.credentials)


METHODS_FOR_MACROS = {
    "ciris_scoring_version": _version,
    "ciris_scoring_components": _components,
    "ciris_scoring_constants": _constants,
    "ciris_scoring_pooler": _pooler,
}


def _extend(adapter: Any) -> None:
    adapter.python_submission_helpers = property(
        lambda self: {METHOD: lambda model, credentials: InProcess(self, model)}
    )
    adapter.default_python_submission_method = property(lambda self: METHOD)
    adapter.generate_python_submission_response = lambda self, query: QueryResponse(
        _message="PYTHON", query=query
    )
    for name, method in METHODS_FOR_MACROS.items():
        setattr(adapter, name, method)
    adapter._available_ = adapter._available_ | METHODS_FOR_MACROS.keys()


def _open_without_limits(manager: Any) -> None:
    """Lift the inherited limits of the sessions of this project's nodes; its tests have no hook that could."""
    open_session = manager.open.__func__

    def open_(cls: Any, connection: Any) -> Any:
        is_new = connection.state != "open"
        opened = open_session(cls, connection)
        if is_new and str(opened.name).partition(".")[2].startswith("ciris_scoring."):
            from ciris_scoring.basics.connection import LIFT_LIMITS

            with opened.handle.cursor() as cursor:
                cursor.execute(LIFT_LIMITS)
            if not opened.handle.autocommit:
                opened.handle.commit()
        return opened

    manager.open = classmethod(open_)


_extend(PostgresAdapter)
_open_without_limits(PostgresConnectionManager)
