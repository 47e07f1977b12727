"""The components of the factors and the parts that a score loses points to, as ``seeds/components.csv`` lists them.

dbt loads the file as a table, and its macros get the rows from here, through the adapter (``dbt_postgres_python``).
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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


def _read() -> Iterator[Component]:
    with (own_project() / "seeds/components.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values: dict[str, Any] = {name: text or None for name, text in row.items()}
            values |= {name: row[name] == "true" for name in ("has_limits", "has_design_effect", "is_rate")}
            values["part_order"] = int(row["part_order"]) if row["part_order"] else None
            yield Component(**values)


COMPONENT_ROWS = tuple(_read())
"""In the order of the file, which is that of the public contract."""
