"""The components of the factors and the parts that a score loses points to, as ``seeds/components.csv`` lists them.

dbt loads the file as a table, and its macros get the rows from here, through the adapter (``dbt_postgres_python``).
"""

import csv
from dataclasses import dataclass

from ciris_scoring.basics.project import own_project


@dataclass(frozen=True, slots=True)
class Component:
    """A row; ``seeds/_seeds.yml`` describes the columns."""

    component: str
    factor: str
    part_order: int | None
    better: str | None
    has_limits: bool
    has_design_effect: bool
    is_rate: bool
    component_words: str | None
    part_words: str | None
    lens_name: str | None


def _read() -> tuple[Component, ...]:
    with (own_project() / "seeds/components.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Component(
                component=row["component"],
                factor=row["factor"],
                part_order=int(row["part_order"]) if row["part_order"] else None,
                better=row["better"] or None,
                has_limits=row["has_limits"] == "true",
                has_design_effect=row["has_design_effect"] == "true",
                is_rate=row["is_rate"] == "true",
                component_words=row["component_words"] or None,
                part_words=row["part_words"] or None,
                lens_name=row["lens_name"] or None,
            )
            for row in csv.DictReader(file)
        )


COMPONENT_ROWS = _read()
"""In the order of the file, which is that of the public contract."""
