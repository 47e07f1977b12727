"""What the Python steps have in common: one transaction over one snapshot, and what they refuse."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg import IsolationLevel, sql

from ciris_scoring.basics.connection import table_exists
from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.relations import Relations

ANALYZE_ROWS = 1_000
"""Statistics are renewed when a run has changed at least this many rows."""
FIRST_HALF_HINT = (
    "Run ciris-scoring run, which builds all of it; in plain dbt, build the first half of a run before the step: "
    "dbt build --selector before_resilience (a project that has this one as a package needs its selectors.yml)"
)

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


def require_relations(cursor: psycopg.Cursor, relations: Relations, names: Iterable[str]) -> None:
    """Refuse to begin before the first half of a run has been built.

    :raises StepError: names the first relation that is missing.
    """
    for name in names:
        if not table_exists(cursor, *relations.places[name]):
            raise StepError(
                f"{relations.places[name]} does not exist, so there is nothing to score yet.",
                FIRST_HALF_HINT,
            )


def require_published_parameters(cursor: psycopg.Cursor, relations: Relations) -> None:
    """Refuse the parameters of a run that was itself refused: the inputs were made with others.

    :raises StepError: names both parameter sets.
    """
    if not table_exists(cursor, *relations.places["int_scoring_run"]):
        return
    cursor.execute(
        sql.SQL(
            "select parameter_set_id, published_parameter_set_id from {}"
            " where parameter_set_id <> published_parameter_set_id and not is_full_refresh"
        ).format(relations["int_scoring_run"])
    )
    refused = cursor.fetchone()
    if refused is not None:
        raise StepError(
            f"The last run's parameters (parameter_set_id {refused[0]}) are not those of the published scores "
            f"({refused[1]}), so it was refused and its inputs were not built.",
            "Run again with the published parameters, or score everything again: --full-refresh --allow-rescoring.",
        )


def read_parameter_texts(
    cursor: psycopg.Cursor, relations: Relations, names: Iterable[str]
) -> dict[str, str | None]:
    """Read parameters from ``int_scoring_parameters`` in their published spelling; a missing one is not there."""
    query = sql.SQL("select parameter_name, parameter_value from {} where parameter_name = any(%s)")
    cursor.execute(query.format(relations["int_scoring_parameters"]), [list(names)])
    return dict(cursor.fetchall())
