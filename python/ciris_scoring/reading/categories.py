"""The categories of capacity, with the specification's guidance and the colours they are shown in."""

from dataclasses import dataclass

from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True, slots=True)
class Category:
    """A row of dim_capacity_categories; units and nulls are those of the mart."""

    category: str
    label: str
    guidance: str
    lower_bound: float | None
    upper_bound: float | None
    colour: str


def categories(marts: Marts) -> list[Category]:
    """Read the categories, the lowest first."""
    return marts.rows(
        Category,
        """
        select {columns}
        from {dim_capacity_categories}
        order by lower_bound nulls first
        """,
    )
