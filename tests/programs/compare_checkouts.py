"""Score the same traces with two checkouts of the project and compare all marts row by row.

`python tests/programs/compare_checkouts.py OTHER` takes the folder of another checkout, for example one that `git
worktree add ../before v0.1.0` created. Each checkout scores the sample, the real traces and random fleets by day and
by hour, in a first run and an incremental one, with its own package and models, into a schema of a temporary
database. Marts and columns that both have must be equal, doubles to 1e-12 of their size.

With --upgrade, the other checkout makes only the first run, and this one continues in the same schema.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from nasty_fleet import START, nasty_fleet
from pipeline import REPOSITORY, load_rows, mart_differences

SCHEMAS = {"here": "scored_here", "there": "scored_there"}


@dataclass
class Fleet:
    """Traces to score, and the as-ofs of the runs in order."""

    name: str
    load: Callable[[psycopg.Connection], Any]
    as_ofs: list[datetime]
    variables: dict[str, Any] = field(default_factory=dict)


def fleets(seeds: int) -> Iterator[Fleet]:
    """Yield the sample, the real traces and random fleets."""
    newest = datetime.fromisoformat(SAMPLE["as_of"])
    yield Fleet("sample", load_sample, [newest - timedelta(days=2), newest])
    import test_real_traces as real

    for period in real.PERIODS:
        with embedded.throw_away() as server, psycopg.connect(server.conninfo()) as connection:
            newest = real.load(connection, period)
        yield Fleet(
            f"real traces by {period}",
            lambda connection, period=period: real.load(connection, period),
            [newest],
            {"ciris_scoring_period": period},
        )
    for seed in range(1, seeds + 1):
        days = {"days": 40, "agents": 7, "traces_per_day": 9}
        end = START + timedelta(days=40)
        yield Fleet(f"random fleet {seed} by day", _nasty(seed, days), [end - timedelta(days=2), end])
        end = START + timedelta(days=8, hours=17)
        yield Fleet(
            f"random fleet {seed} by hour",
            _nasty(seed, {"days": 9}),
            [end - timedelta(hours=5), end],
            {"ciris_scoring_period": "hour"},
        )


def _nasty(seed: int, size: dict[str, int]) -> Callable[[psycopg.Connection], None]:
    def load(connection: psycopg.Connection) -> None:
        load_rows(connection, nasty_fleet(seed, **size))

    return load


def score_with(checkout: Path, profiles_dir: Path, as_of: datetime, variables: dict[str, Any]) -> None:
    """Make a run with the package and models of a checkout. If it fails, the program exits."""
    command = [
        *(sys.executable, "-m", "ciris_scoring.cli", "run", "--as-of", as_of.isoformat()),
        *(
            "--project-dir",
            str(checkout),
            "--profiles-dir",
            str(profiles_dir),
            "--vars",
            json.dumps(variables),
        ),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "python"),
        "DBT_TARGET_PATH": str(profiles_dir / "target"),
        "DBT_LOG_PATH": str(profiles_dir / "logs"),
    }
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout} failed at {as_of}:\n{done.stderr[-2000:]}")


def main() -> int:
    """Compare all fleets. The exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("--seeds", type=int, default=3, help="random fleets by day, and by hour")
    parser.add_argument(
        "--upgrade", action="store_true", help="go on with this checkout after the other's first run"
    )
    options = parser.parse_args()
    checkouts = {"here": REPOSITORY, "there": options.other.resolve()}
    different = 0
    for fleet in fleets(options.seeds):
        with (
            embedded.throw_away() as server,
            tempfile.TemporaryDirectory() as folder,
            psycopg.connect(server.conninfo(), autocommit=True, options="-c timezone=UTC") as connection,
        ):
            fleet.load(connection)
            for name, schema in SCHEMAS.items():
                profiles_dir = Path(folder) / name
                profiles_dir.mkdir()
                embedded.write_profile(profiles_dir, server, schema=schema)
                for number, as_of in enumerate(fleet.as_ofs):
                    checkout = checkouts["here" if options.upgrade and number else name]
                    score_with(checkout, profiles_dir, as_of, fleet.variables)
            [[n_scores]] = connection.execute(
                f"select count(*) from {SCHEMAS['here']}.fct_capacity_scores"
            ).fetchall()
            differences = mart_differences(connection, *SCHEMAS.values())
        different += len(differences)
        print(
            f"{fleet.name}: {n_scores:,} scores, {len(differences)} marts differ",
            *differences,
            sep="\n  ",
            flush=True,
        )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
