"""Rows of the marts as dataclasses, and the state of the database that they are read in."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from ciris_scoring.connection import table_exists
from ciris_scoring.relations import Relations

Kind = TypeVar("Kind")

MARTS = (
    *("fct_capacity_scores", "fct_factor_components", "fct_score_attribution", "fct_score_comparisons"),
    *("fct_score_changes", "fct_fleet_capacity", "fct_capacity_alerts", "fct_trace_verdicts"),
    *("dim_agents", "dim_capacity_categories", "dim_scoring_parameters", "dim_scoring_windows"),
)
"""The marts that are read here."""


def rows(
    connection: psycopg.Connection,
    relations: Relations,
    kind: type[Kind],
    query: str,
    values: Mapping[str, Any] | None = None,
) -> list[Kind]:
    """Return the rows of a query.

    :param relations: where the marts are, ``{fct_capacity_scores}`` and the like in the query.
    :param kind: dataclass with a field for each column of the query.
    :param values: of the placeholders.
    :raises psycopg.Error: the marts cannot be read.
    """
    composed = sql.SQL(query).format(**relations)
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(composed, values).fetchall()


@contextlib.contextmanager
def read_only(connection: psycopg.Connection) -> Iterator[None]:
    """Read one state of the database, and change nothing: a read-only transaction."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield


def missing_marts(connection: psycopg.Connection, relations: Relations) -> list[str]:
    """Return the names of the marts that are not there.

    :raises psycopg.Error: the role may not use the schema.
    """
    return [mart for mart in MARTS if not table_exists(connection, *relations.places[mart])]
