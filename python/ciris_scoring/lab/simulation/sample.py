"""The sample: a small simulated fleet, always the same, whose scores the documents show."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

import psycopg

from ciris_scoring.basics.source_schema import DEFAULT_SCHEMA, SAME_NAMES
from ciris_scoring.lab.simulation.fleet import Fleet, simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet


class SampleInfo(TypedDict):
    """Type of the sample's arguments for `simulate_fleet`."""

    agents: int
    days: int
    traces_per_day: float
    seed: int
    as_of: str
    """End of the simulation, and as-of of the scores, in ISO 8601."""


SAMPLE: SampleInfo = {
    "agents": 14,
    "days": 45,
    "traces_per_day": 21,
    "seed": 20260615,
    "as_of": "2026-06-15T00:00:00Z",
}


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
