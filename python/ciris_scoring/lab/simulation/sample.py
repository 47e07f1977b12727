"""The sample: a small simulated fleet that ships with the package. It is not a dbt seed, because ``dbt build`` would
load it into a user's database.

``python -m ciris_scoring.lab.simulation.sample`` writes its files again from the arguments in `SAMPLE`.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypedDict

import psycopg

from ciris_scoring.basics.source_schema import DEFAULT_SCHEMA, SOURCE_TABLES
from ciris_scoring.lab.simulation.fleet import simulate_fleet
from ciris_scoring.lab.simulation.load import load_text
from ciris_scoring.lab.simulation.text_formats import csv_text


class SampleInfo(TypedDict):
    """Arguments of `simulate_fleet` for the sample. Its end is the as-of of the scores."""

    agents: int
    days: int
    traces_per_day: float
    seed: int
    as_of: str
    """ISO 8601."""


SAMPLE: SampleInfo = {
    "agents": 14,
    "days": 45,
    "traces_per_day": 21,
    "seed": 20260615,
    "as_of": "2026-06-15T00:00:00Z",
}

_FOLDER = "sample_files"


def load_sample(
    connection: psycopg.Connection,
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] | None = None,
) -> int:
    """Write the sample into the four source tables. Errors are those of `load_fleet`.

    :returns: number of trace rows written.
    """
    sources = {name: _decompressed((_shipped() / f"{name}.csv.gz").read_bytes()) for name in SOURCE_TABLES}
    return load_text(connection, schema, tables, sources, "format csv, header true")


def sample_info() -> SampleInfo:
    """Return the contents of ``sample.json``."""
    info: SampleInfo = json.loads((_shipped() / "sample.json").read_text("utf-8"))
    return info


def write_sample(folder: Path) -> None:
    """Simulate the sample and write its files. The bytes are always the same with the same version of zlib."""
    fleet = simulate_fleet(
        SAMPLE["agents"],
        SAMPLE["days"],
        SAMPLE["traces_per_day"],
        SAMPLE["seed"],
        datetime.fromisoformat(SAMPLE["as_of"]),
    )
    frames = {
        "covenant_traces": fleet.traces,
        "wbd_deferrals": fleet.deferrals,
        "covenant_public_keys": fleet.public_keys,
        "covenant_trace_batches": fleet.batches,
    }
    for name, frame in frames.items():
        content = gzip.compress(csv_text(frame).encode(), compresslevel=9, mtime=0)
        (folder / f"{name}.csv.gz").write_bytes(content)
    (folder / "sample.json").write_text(json.dumps(SAMPLE, indent=2) + "\n", encoding="utf-8")


def _shipped() -> Traversable:
    return resources.files(__package__) / _FOLDER


def _decompressed(content: bytes) -> Iterator[bytes]:
    yield gzip.decompress(content)


if __name__ == "__main__":
    write_sample(Path(__file__).parent / _FOLDER)
