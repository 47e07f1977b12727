"""Access to the published marts: rows as dataclasses, in one consistent snapshot of the database."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Any, TypeVar

import psycopg
import yaml
from psycopg import sql
from psycopg.rows import class_row, dict_row, tuple_row

from ciris_scoring.database.connection import has_right, one_row
from ciris_scoring.database.relations import Relations
from ciris_scoring.errors import DatabaseError
from ciris_scoring.paths import own_project

Kind = TypeVar("Kind")

MARTS = (
    *("dim_agents", "dim_capacity_categories", "dim_scoring_parameters", "dim_scoring_windows"),
    *("fct_capacity_scores", "fct_score_certainty", "fct_verdicts"),
    *("fct_factor_components", "fct_score_attribution", "fct_score_comparisons"),
    *("fct_score_changes", "fct_fleet_capacity", "fct_capacity_alerts", "fct_red_flags"),
    *("fct_trace_checks", "fct_deferral_values"),
)
"""Marts that this package requires."""
SCORE_AGAIN = "Score the fleet with this version: ciris-scoring run. It says if everything must be scored again."
"""Remedy for marts of another version."""
SCORED = """{fct_capacity_scores}
    left join {fct_score_certainty} using (agent_id_hash, agent_label, as_of, window_days)
    left join (
        select
            agent_id_hash, as_of, window_days, category_low, category_high, category_certainty, verdict, review_for,
            verdict_threshold, fragile_window_days, fragile_score_high, last_verdict
        from {fct_verdicts}
    ) as verdicts using (agent_id_hash, as_of, window_days)"""
"""Scores with their certainty and verdict, which queries name ``{scored}``."""


@cache
def described_marts() -> list[dict[str, Any]]:
    """Return the marts as models/marts/_marts__models.yml describes them."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    described = yaml.load((own_project() / "models/marts/_marts__models.yml").read_bytes(), loader)
    models: list[dict[str, Any]] = described["models"]
    return models


@dataclass(frozen=True)
class Marts:
    """Published marts of a dbt target. The methods raise psycopg.Error if a mart cannot be read."""

    connection: psycopg.Connection[Any]
    relations: Relations
    """Relations of the marts. Queries refer to them by name, for example ``{fct_capacity_scores}``."""

    def rows(self, kind: type[Kind], query: str, **values: Any) -> list[Kind]:
        """Return the rows of a query.

        :param kind: class of the rows. ``{columns}`` in the query is replaced by the names of its fields without a
        default.
        :param values: values of the placeholders.
        """
        fields = [name for name, field in signature(kind).parameters.items() if field.default is field.empty]
        columns = sql.SQL(", ").join(map(sql.Identifier, fields))
        composed = self._composed(query, columns=columns)
        with self.connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(composed, values).fetchall()

    def dicts(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query as dictionaries by column."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self._composed(query), values).fetchall()

    def value(self, query: str, **values: Any) -> Any:
        """Return the single value that a query selects."""
        return one_row(self.connection.execute(self._composed(query), values))[0]

    def _composed(self, query: str, **names: sql.Composable) -> sql.Composed:
        scored = sql.SQL(SCORED).format(**self.relations)
        return sql.SQL(query).format(**self.relations, **names, scored=scored)

    def may_read(self, *marts: str) -> bool:
        """Return whether marts exist and the role has the right to read them."""
        return has_right(self.connection, *(self.relations.places[mart] for mart in marts))

    def missing(self) -> list[str]:
        """Return the marts that do not exist, and the columns that the others lack, such as "fct_red_flags.red_flag":
        another version of the project built them."""
        query = """
            select n.nspname::text, c.relname::text, array_agg(a.attname::text)
            from pg_namespace as n
            join pg_class as c on c.relnamespace = n.oid
            join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            where n.nspname = any(%s)
            group by 1, 2
            """
        places = {mart: self.relations.places[mart] for mart in MARTS}
        rows = self.connection.cursor(row_factory=tuple_row).execute(query, [[one.schema for one in places.values()]])
        columns: dict[tuple[str, ...], list[str]] = {(schema, name): names for schema, name, names in rows}
        lacking: list[str] = []
        for described in described_marts():
            mart = described["name"]
            if mart in places:
                found = columns.get(tuple(places[mart]))
                names = [column["name"] for column in described["columns"]]
                lacking += [f"{mart}.{name}" for name in names if name not in found] if found else [mart]
        return lacking

    def is_published(self) -> bool:
        """Return whether scores are published, also by another version of the project."""
        return self.may_read("fct_capacity_scores") and bool(
            self.value("select exists (select from {fct_capacity_scores})")
        )

    def require(self) -> None:
        """Raise an error if a mart, or a column of a mart, does not exist.

        :raises DatabaseError: a mart or a column does not exist.
        """
        missing = self.missing()
        if missing and not self.is_published():
            raise DatabaseError(
                f"No score is published in schema {self.relations.marts_schema} yet.",
                f"Score the fleet first with ciris-scoring run, or name another --target. Missing: {missing[0]}.",
            )
        if missing:
            raise DatabaseError(
                f"Another version of the project built the marts in schema {self.relations.marts_schema}: there is no "
                f"{', '.join(missing)}.",
                SCORE_AGAIN,
            )


def grouped(rows: Iterable[Kind], by: str = "agent_id_hash") -> Mapping[str, list[Kind]]:
    """Group rows by a field and keep their order. Looking up a value without rows returns an empty list."""
    value_of = attrgetter(by)
    found: dict[str, list[Kind]] = defaultdict(list)
    for row in rows:
        found[value_of(row)].append(row)
    return found
