"""The published marts: rows as dataclasses, and the state of the database that they are read in."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from operator import attrgetter
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import class_row, dict_row

from ciris_scoring.basics.connection import has_right, one_row, table_exists
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.relations import Relations

Kind = TypeVar("Kind")

MARTS = (
    *("dim_agents", "dim_capacity_categories", "dim_scoring_parameters", "dim_scoring_windows"),
    *("fct_capacity_scores", "fct_factor_components", "fct_score_attribution", "fct_score_comparisons"),
    *("fct_score_changes", "fct_fleet_capacity", "fct_capacity_alerts", "fct_record_signs"),
    *("fct_trace_verdicts", "fct_deferral_verdicts"),
)
"""The marts that are read here."""


@dataclass(frozen=True)
class Marts:
    """The marts of a target, read in one session. Every reading raises psycopg.Error where they cannot be read."""

    connection: psycopg.Connection[Any]
    relations: Relations
    """Where they are: ``{fct_capacity_scores}`` and the like in queries."""

    def rows(self, kind: type[Kind], query: str, **values: Any) -> list[Kind]:
        """Return the rows of a query.

        :param kind: class with a field for each column of the query, whose names are ``{columns}`` there; a field with
            a default is filled in later.
        :param values: of the placeholders.
        """
        fields = [name for name, field in signature(kind).parameters.items() if field.default is field.empty]
        columns = sql.SQL(", ").join(map(sql.Identifier, fields))
        composed = sql.SQL(query).format(**self.relations, columns=columns)
        with self.connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(composed, values).fetchall()

    def dicts(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query by column."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(sql.SQL(query).format(**self.relations), values).fetchall()

    def value(self, query: str, **values: Any) -> Any:
        """Return the one value of a query."""
        return one_row(self.connection.execute(sql.SQL(query).format(**self.relations), values))[0]

    def may_read(self, mart: str) -> bool:
        """Return whether a mart is there and the role may read it."""
        return has_right(self.connection, *self.relations.places[mart])

    def missing(self) -> list[str]:
        """Return the names of the marts that are not there."""
        return [mart for mart in MARTS if not table_exists(self.connection, *self.relations.places[mart])]

    def require(self) -> None:
        """Refuse to read where a mart is missing.

        :raises DatabaseError: one is.
        """
        if missing := self.missing():
            raise DatabaseError(
                f"There is no {self.relations.places[missing[0]]}: no score is published there.",
                "Score the fleet first with ciris-scoring run, or name another --target.",
            )


def grouped(rows: Iterable[Kind], by: str = "agent_id_hash") -> Mapping[str, list[Kind]]:
    """Group rows by a field, in their order; a value without a row, such as an agent, has none."""
    value_of = attrgetter(by)
    found: dict[str, list[Kind]] = defaultdict(list)
    for row in rows:
        found[value_of(row)].append(row)
    return found


@contextlib.contextmanager
def read_only(connection: psycopg.Connection) -> Iterator[None]:
    """Read one state of the database, and change nothing: a read-only transaction."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield
