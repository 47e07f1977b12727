"""The sample: a small simulated fleet, always the same, whose scores the documents show."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg

from ciris_scoring.database.source_schema import DEFAULT_SCHEMA, SAME_NAMES
from ciris_scoring.lab.simulation.fleet import Fleet, simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet

SAMPLE: Mapping[str, Any] = {
    "agents": 14,
    "days": 45,
    "traces_per_day": 21,
    "seed": 20260615,
    "as_of": "2026-06-15T00:00:00Z",
}
"""Arguments of `simulate_fleet` for the sample. The as-of of its scores is the end of the simulation."""


def sample_fleet() -> Fleet:
    """Simulate the sample."""
    end = datetime.fromisoformat(SAMPLE["as_of"])
    return simulate_fleet(SAMPLE["agents"], SAMPLE["days"], SAMPLE["traces_per_day"], SAMPLE["seed"], end)


def load_sample(
    connection: psycopg.Connection,
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] = SAME_NAMES,
) -> int:
    """Write the sample into the four source tables. Result and errors are those of `load_fleet`."""
    return load_fleet(connection, sample_fleet(), schema, tables)
