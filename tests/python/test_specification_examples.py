"""Test that docs/scoring.md §11 states how far the example SQL of the specification is from the marts, on the sample.

The examples are run as they are in docs/ciris_scoring_specification.md, with the as-of in place of NOW().
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

import psycopg
from psycopg.rows import dict_row

from conftest import REPOSITORY

AS_OF = "2026-06-15 00:00:00+00"
Values = Mapping[Any, float | None]


def example(heading: str, *, by_hash: bool = False) -> str:
    """Return the example SQL below a heading, at the as-of.

    :param by_hash: whether to group by agent_id_hash instead of agent_name.
    """
    text = (REPOSITORY / "docs/ciris_scoring_specification.md").read_text(encoding="utf-8")
    [block] = re.findall(rf"^### {heading}\n\n```sql\n(.*?);\n```", text, re.DOTALL | re.MULTILINE)
    query = block.replace("NOW()", f"timestamptz '{AS_OF}'").replace("%", "%%")
    return query.replace("agent_name", "agent_id_hash") if by_hash else query


class Sample:
    """The scored sample at the as-of, in the window of 7 days."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.scores = {
            row["agent_id_hash"]: row
            for row in self.rows(f"select * from fct_capacity_scores where as_of = '{AS_OF}' and window_days = 7")
        }

    def rows(self, query: str) -> list[dict[str, Any]]:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query).fetchall()

    def of_example(self, heading: str, column: str, key: str = "agent_name") -> dict[Any, float | None]:
        """Return a column of an example by agent. An agent is found by its name at the as-of."""
        by_key = {row[key]: row[column.lower()] for row in self.rows(example(heading))}
        return {agent: by_key.get(row[key]) for agent, row in self.scores.items()}

    def of_marts(self, column: str) -> dict[Any, float | None]:
        return {agent: row[column] for agent, row in self.scores.items()}


def figures(one: Values, other: Values) -> tuple[float, float, int]:
    """Return the greatest and the mean absolute difference, and the number of pairs without a null or NaN."""
    pairs = [(one[key], other[key]) for key in one.keys() & other.keys()]
    known = [(float(a), float(b)) for a, b in pairs if a is not None and b is not None]
    found = [abs(a - b) for a, b in known if not math.isnan(a - b)]
    return max(found), fmean(found), len(found)


def hourly(sample: Sample) -> tuple[float, float, int]:
    example_hours = {
        row["time_bucket"]: row["fleet_coherence"]
        for row in sample.rows(example("SQL Example: Cross-Agent Coherence Validation"))
    }
    marts = sample.rows("select hour_start, fleet_coherence from fct_fleet_coherence_hourly")
    return figures(example_hours, {row["hour_start"]: row["fleet_coherence"] for row in marts})


def grouping(sample: Sample) -> tuple[float, float, int]:
    by_name = sample.of_example("Complete SQL", "CIRIS_capacity")
    by_hash = {
        row["agent_id_hash"]: row["ciris_capacity"] for row in sample.rows(example("Complete SQL", by_hash=True))
    }
    return figures(by_name, by_hash)


def zero_without_a_row(values: Values) -> Values:
    return {agent: 0.0 if value is None else value for agent, value in values.items()}


def of(
    heading: str, column: str, mart: str, key: str = "agent_name", change: Callable[[Values], Values] = lambda one: one
) -> Callable[[Sample], tuple[float, float, int]]:
    """Return a function that compares a column of an example with a column of fct_capacity_scores."""
    return lambda sample: figures(change(sample.of_example(heading, column, key)), sample.of_marts(mart))


ROWS: Mapping[str, Callable[[Sample], tuple[float, float, int]]] = {
    "Identity drift": of("SQL Example: Identity Drift Detection", "D_identity", "d_identity", "agent_id_hash"),
    "K_contradiction": of("SQL Example: Contradiction Detection", "K_contradiction", "k_contradiction"),
    "I_chain": of("SQL Example: Hash Chain Integrity", "I_chain", "i_chain"),
    "Drift of plausibility": of(
        "SQL Example: Score Drift Detection", "csdma_drift_zscore", "delta_csdma_plausibility_score"
    ),
    "Drift of coherence": of("SQL Example: Score Drift Detection", "coherence_drift_zscore", "delta_coherence_level"),
    "MTTR, hours (no row: 0)": of("SQL Example: Fragility MTTR", "mttr_hours", "mttr_hours", change=zero_without_a_row),
    "ECE": of("SQL Example: Expected Calibration Error", "ECE", "ece"),
    "S": of("SQL Example: Coherence Decay Model", "S_coherence", "s_score"),
    "Grouping by name": grouping,
    "Fleet coherence by hour": hourly,
    "Composite": of("Complete SQL", "CIRIS_capacity", "capacity_score"),
}
"""Comparison of each row of the table, by its first cell. The row "Time" has no number that could differ."""


def stated() -> dict[str, tuple[str, str]]:
    """Return the last two cells of each row of the table in docs/scoring.md §11, by its first cell."""
    section = (REPOSITORY / "docs/scoring.md").read_text(encoding="utf-8").partition("## 11. ")[2]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    return {row[0]: (row[-2], row[-1]) for row in rows}


def test_differences_from_the_examples_are_as_stated(marts: psycopg.Connection) -> None:
    marts.execute("set timezone = 'UTC'")
    sample, expected = Sample(marts), stated()
    assert expected.keys() - ROWS.keys() == {"Time"}
    found = {}
    for name, compare in ROWS.items():
        greatest, mean, n = compare(sample)
        unit = "hours" if "hour" in name and "MTTR" not in name else "agents"
        found[name] = (f"{greatest:.6f}{'' if n == len(sample.scores) else f' ({n} {unit})'}", f"{mean:.6f}")
    assert found == {name: cells for name, cells in expected.items() if name != "Time"}
