"""Run Python models on PostgreSQL in dbt's own process, in the session and transaction of their materialization.

dbt imports every installed module named ``dbt_...``, in every project of the environment. So this module imports only
dbt at its top, and adds to the PostgreSQL adapter without replacing anything: other projects of the environment run as
without it.

- dbt needs three properties to run a Python model: ``python_submission_helpers``, ``default_python_submission_method``
  and ``generate_python_submission_response``.
- The project's macros call the methods ``METHODS_FOR_MACROS`` of the adapter.

``model(dbt, session)`` gets dbt's DB-API connection as ``session``. It may fill temporary tables, and returns the query
that selects its rows. The materialization reads that query from the response of the statement.

Names of dbt that its documentation does not list, and that this module uses: ``PostgresAdapter``, ``AdapterResponse``,
``_available_``, ``connections.exception_handler``, ``connections.get_thread_connection`` and ``dbtObj`` of the compiled
code.
"""

from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.postgres.impl import PostgresAdapter
from dbt_common.exceptions import CompilationError

METHOD = "in_process"
"""Value of dbt's setting ``submission_method`` for Python models on PostgreSQL."""


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
        from ciris_scoring.errors import CirisError

        function = getattr(import_module(f"ciris_scoring.{module}"), name)
        try:
            return function(*(attrgetter(attribute)(self) for attribute in attributes), *arguments)
        except CirisError as error:
            raise CompilationError(f"{error.message} {error.hint}") from error

    return method


METHODS_FOR_MACROS = {
    "ciris_scoring_version": _calling("for_macros.package_version"),
    "ciris_scoring_constants": _calling("for_macros.constants"),
    "ciris_scoring_settings": _calling("database.connection.settings_text"),
    "ciris_scoring_ownership_query": _calling("database.ownership.ownership_query"),
    "ciris_scoring_variable_fault": _calling("database.variables.variable_fault"),
    "ciris_scoring_faults_of_variables": _calling("database.variables.faults", "config"),
    "ciris_scoring_time": _calling("database.variables.time_of"),
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


_extend(PostgresAdapter)
