"""Components of the factors, and loss components of a score, from ``seeds/components.csv``.

dbt loads the file as a table. Its macros get the rows from this module, through the adapter (``dbt_postgres_python``).
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ciris_scoring.paths import own_project


@dataclass(frozen=True, slots=True)
class Component:
    """Row of ``seeds/components.csv``; ``seeds/_seeds.yml`` describes the columns."""

    component: str
    factor: str
    loss_order: int | None
    better: str | None
    has_interval: bool
    bad_events: str | None
    trials: str | None
    lowered_by: str | None
    component_words: str | None
    loss_words: str | None
    trace_words: str | None
    lens_name: str | None


def _read() -> Iterator[Component]:
    with (own_project() / "seeds/components.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values: dict[str, Any] = {name: text or None for name, text in row.items()}
            values["has_interval"] = row["has_interval"] == "true"
            values["loss_order"] = int(row["loss_order"]) if row["loss_order"] else None
            yield Component(**values)


COMPONENT_ROWS = tuple(_read())
"""All rows in the order of the file, which is the public order of components."""

LOSS_WORDS: Mapping[str, str] = {one.component: one.loss_words for one in COMPONENT_ROWS if one.loss_words}
"""Description of each loss component, by its name in the marts."""
