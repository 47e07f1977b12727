"""What the Python model ``int_window_statistics`` calls."""

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from ciris_scoring.steps.limits.inputs import Inputs
from ciris_scoring.steps.limits.step import compute
from ciris_scoring.steps.limits.waiting import find_waiting
from ciris_scoring.steps.limits.writing import statistics_query
from ciris_scoring.steps.session import Session


def window_statistics(dbt: Any, connection: Any, inputs: Mapping[str, str]) -> str:
    """Compute drift, R and limits of the rows that the run rewrites (scoring.md §5, certainty.md §3).

    Rows of an as-of and window whose digest has not changed stay: replace_range keeps them.

    :param dbt: what dbt gives a Python model; replace_range adds ``rewritten_range`` and ``rewritten_table`` to it.
    :param connection: dbt's own, inside the materialization's transaction.
    :param inputs: relations by the fields of :class:`Inputs`.
    :returns: the query of the computed rows.
    :raises StepError: the inputs do not keep the contract.
    """
    session = Session(connection)
    relations = Inputs(**{name: sql.SQL(relation) for name, relation in inputs.items()})
    table = None if dbt.rewritten_table is None else sql.SQL(dbt.rewritten_table)
    fleets = find_waiting(session, relations.interval_inputs, dbt.rewritten_range, table)
    compute(session, relations, fleets)
    return statistics_query()
