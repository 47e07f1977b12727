"""Test that docs/scoring.md §11 states how far the example SQL of the specification is from the marts, on the sample.

The examples are run as they are in docs/ciris_scoring_specification.md, with the as-of in place of NOW().
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import psycopg

from conftest import REPOSITORY
from serving import read

AS_OF = "2026-06-15 00:00:00+00"
Values = Mapping[Any, float | None]
ROWS = {
    "Identity drift": ("SQL Example: Identity Drift Detection", "d_identity", "d_identity"),
    "K_contradiction": ("SQL Example: Contradiction Detection", "k_contradiction", "k_contradiction"),
    "I_chain": ("SQL Example: Hash Chain Integrity", "i_chain", "i_chain"),
    "Drift of plausibility": (
        "SQL Example: Score Drift Detection", "csdma_drift_zscore", "delta_csdma_plausibility_score"),
    "Drift of coherence": ("SQL Example: Score Drift Detection", "coherence_drift_zscore", "delta_coherence_level"),
    "MTTR, hours (no row: 0)": ("SQL Example: Fragility MTTR", "mttr_hours", "mttr_hours"),
    "ECE": ("SQL Example: Expected Calibration Error", "ece", "ece"),
    "S": ("SQL Example: Coherence Decay Model", "s_coherence", "s_score"),
    "Composite": ("Complete SQL", "ciris_capacity", "capacity_score"),
}  # fmt: skip
"""Example, its column and the column of fct_capacity_scores, by the first cell of the row in the table. An agent is
found by its name at the as-of, or by its hash if the example has it. The row "Time" has no number that could differ."""


def example(heading: str) -> str:
    """Return the example SQL below a heading, at the as-of."""
    text = (REPOSITORY / "docs/ciris_scoring_specification.md").read_text(encoding="utf-8")
    [block] = re.findall(rf"^### {heading}\n\n```sql\n(.*?);\n```", text, re.DOTALL | re.MULTILINE)
    return block.replace("NOW()", f"timestamptz '{AS_OF}'").replace("%", "%%")


def figures(one: Values, other: Values) -> tuple[float, float, int]:
    """Return the greatest and the mean absolute difference, and the number of pairs without a null or NaN."""
    pairs = [(one[key], other[key]) for key in one.keys() & other.keys()]
    known = [(float(a), float(b)) for a, b in pairs if a is not None and b is not None]
    found = [abs(a - b) for a, b in known if not math.isnan(a - b)]
    return max(found), fmean(found), len(found)


def found_figures(marts: psycopg.Connection) -> dict[str, tuple[float, float, int]]:
    """Return the figures of each row of the table."""
    query = f"select * from fct_capacity_scores where as_of = '{AS_OF}' and window_days = 7"
    scores = {row["agent_id_hash"]: row for row in read(marts, query)}
    found = {}
    for name, (heading, column, of_mart) in ROWS.items():
        key = "agent_id_hash" if name == "Identity drift" else "agent_name"
        values = {row[key]: row[column] for row in read(marts, example(heading))}
        nothing = 0.0 if "no row: 0" in name else None
        of_example = {agent: values.get(row[key], nothing) for agent, row in scores.items()}
        found[name] = figures(of_example, {agent: row[of_mart] for agent, row in scores.items()})
        if name == "Composite":
            by_hash = read(marts, example(heading).replace("agent_name", "agent_id_hash"))
            found["Grouping by name"] = figures(of_example, {row["agent_id_hash"]: row[column] for row in by_hash})
    buckets = read(marts, example("SQL Example: Cross-Agent Coherence Validation"))
    hours = read(marts, "select hour_start, fleet_coherence from fct_fleet_coherence_hourly")
    found["Fleet coherence by hour"] = figures(
        {row["time_bucket"]: row["fleet_coherence"] for row in buckets},
        {row["hour_start"]: row["fleet_coherence"] for row in hours},
    )
    return found


def test_differences_from_the_examples_are_as_stated(marts: psycopg.Connection) -> None:
    marts.execute("set timezone = 'UTC'")
    section = (REPOSITORY / "docs/scoring.md").read_text(encoding="utf-8").partition("## 11. ")[2]
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    found = {"Time": ("0", "0")}
    for name, (greatest, mean, n) in found_figures(marts).items():
        unit = "hours" if name == "Fleet coherence by hour" else "agents"
        found[name] = (f"{greatest:.6f}{'' if n == 14 else f' ({n} {unit})'}", f"{mean:.6f}")
    assert found == {row[0]: (row[-2], row[-1]) for row in table}
