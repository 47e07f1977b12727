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
        """Return the names of the marts that do not exist."""
        query = """
            select n.nspname::text, c.relname::text
            from pg_class as c
            inner join pg_namespace as n on c.relnamespace = n.oid
            where n.nspname = any(%s)
            """
        schemas = sorted({self.relations.places[mart].schema for mart in MARTS})
        found = set(self.connection.cursor(row_factory=tuple_row).execute(query, [schemas]).fetchall())
        return [mart for mart in MARTS if tuple(self.relations.places[mart]) not in found]

    def is_published(self) -> bool:
        """Return whether scores are published, also by another version of the project."""
        return self.may_read("fct_capacity_scores") and bool(
            self.value("select exists (select from {fct_capacity_scores})")
        )

    def lacking(self) -> list[str]:
        """Return the columns that existing marts lack, such as "fct_red_flags.red_flag": another version of the
        project built them."""
        places = {mart: self.relations.places[mart] for mart in MARTS}
        query = """
            select n.nspname::text, c.relname::text, array_agg(a.attname::text)
            from unnest(%s::text[], %s::text[]) as wanted (schema_name, relation_name)
            join pg_namespace as n on n.nspname = wanted.schema_name
            join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.relation_name
            join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            group by 1, 2
            """
        wanted = [
            [place.schema for place in places.values()],
            [place.identifier for place in places.values()],
        ]
        found = {(schema, name): columns for schema, name, columns in self.connection.execute(query, wanted)}
        return [
            f"{mart['name']}.{column['name']}"
            for mart in described_marts()
            for column in mart["columns"]
            if mart["name"] in places and column["name"] not in found.get(places[mart["name"]], [column["name"]])
        ]

    def require(self) -> None:
        """Raise an error if a mart, or a column of a mart, does not exist.

        :raises DatabaseError: a mart or a column does not exist.
        """
        missing = self.missing()
        if missing and not self.is_published():
            raise DatabaseError(
                f"No score is published in schema {self.relations.marts_schema} yet.",
                "Score the fleet first with ciris-scoring run, or name another --target. Missing: "
                f"{self.relations.places[missing[0]]}.",
            )
        if lacking := missing + self.lacking():
            raise DatabaseError(
                f"Another version of the project built the marts in schema {self.relations.marts_schema}: there is no "
                f"{', '.join(lacking)}.",
                SCORE_AGAIN,
            )


def grouped(rows: Iterable[Kind], by: str = "agent_id_hash") -> Mapping[str, list[Kind]]:
    """Group rows by a field and keep their order. Looking up a value without rows returns an empty list."""
    value_of = attrgetter(by)
    found: dict[str, list[Kind]] = defaultdict(list)
    for row in rows:
        found[value_of(row)].append(row)
    return found
