"""What the Python steps have in common: one transaction over one snapshot, and what they refuse."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg import IsolationLevel, sql

from ciris_scoring.connection import table_exists
from ciris_scoring.errors import StepError

ANALYZE_ROWS = 1_000
"""Statistics are renewed when a run has changed at least this many rows."""

Report = Callable[[str], None]


class StepResult(NamedTuple):
    """What one step did: rows found waiting, rows written, rows deleted, seconds."""

    waiting: int
    written: int
    deleted: int
    seconds: float


@contextmanager
def one_transaction(connection: psycopg.Connection) -> Iterator[psycopg.Cursor]:
    """Return a cursor in a transaction that sees one snapshot, and that leaves all of its changes or none."""
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction(), connection.cursor() as cursor:
            yield cursor
    finally:
        if not connection.closed:
            connection.isolation_level = None


def analyze(connection: psycopg.Connection, table: sql.Identifier) -> None:
    """Renew the planner's statistics of a table."""
    with connection.transaction():
        connection.execute(sql.SQL("analyze {}").format(table))


def column_list(names: Iterable[str], of: str | None = None) -> sql.Composed:
    """List of columns, each qualified by the table ``of`` where given."""
    return sql.SQL(", ").join(sql.Identifier(*filter(None, (of, name))) for name in names)


def require_relations(cursor: psycopg.Cursor, schema: str, names: Iterable[str]) -> None:
    """Refuse to begin before the first half of a run has been built.

    :raises StepError: names the first relation that is missing.
    """
    for name in names:
        if not table_exists(cursor, schema, name):
            raise StepError(
                f"{schema}.{name} does not exist, so there is nothing to score yet.",
                "Build the first half of a run: `dbt build --selector before_resilience`; "
                "`ciris-scoring run` does it all.",
            )


def require_published_parameters(cursor: psycopg.Cursor, schema: str) -> None:
    """Refuse the parameters of a run that was itself refused: the inputs were made with others.

    :raises StepError: names both parameter sets.
    """
    if not table_exists(cursor, schema, "int_scoring_run"):
        return
    cursor.execute(
        sql.SQL(
            "select parameter_set_id, published_parameter_set_id from {}"
            " where parameter_set_id <> published_parameter_set_id and not is_full_refresh"
        ).format(sql.Identifier(schema, "int_scoring_run"))
    )
    refused = cursor.fetchone()
    if refused is not None:
        raise StepError(
            f"The last run's parameters (parameter_set_id {refused[0]}) are not those of the published scores "
            f"({refused[1]}), so it was refused and its inputs were not built.",
            "Run again with the published parameters, or score everything again: --full-refresh --allow-rescoring.",
        )


def read_parameter_texts(cursor: psycopg.Cursor, schema: str, names: Iterable[str]) -> dict[str, str | None]:
    """Read parameters from ``int_scoring_parameters`` in their published spelling; a missing one is not there."""
    query = sql.SQL("select parameter_name, parameter_value from {} where parameter_name = any(%s)")
    cursor.execute(query.format(sql.Identifier(schema, "int_scoring_parameters")), [list(names)])
    return dict(cursor.fetchall())
