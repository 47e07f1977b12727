"""The categories of capacity, with the specification's guidance and the colours they are shown in."""

from dataclasses import dataclass

import psycopg

from ciris_scoring.reading.marts import rows
from ciris_scoring.relations import Relations


@dataclass(frozen=True, slots=True)
class Category:
    """A row of dim_capacity_categories; units and nulls are those of the mart."""

    category: str
    label: str
    guidance: str
    lower_bound: float | None
    upper_bound: float | None
    colour: str


def categories(connection: psycopg.Connection, relations: Relations) -> list[Category]:
    """Read the categories, the lowest first.

    :raises psycopg.Error: the mart cannot be read.
    """
    return rows(
        connection,
        relations,
        Category,
        """
        select category, label, guidance, lower_bound, upper_bound, colour
        from {dim_capacity_categories}
        order by lower_bound nulls first
        """,
    )
