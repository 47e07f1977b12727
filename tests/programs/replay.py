"""Replay a fleet run by run, as a scheduler would, and compare the result with a full refresh.

`python tests/programs/replay.py` (part of `make soak`) replays 60 daily runs and 24 hourly runs of different lengths.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from event_lens import AS_EVENTS, write_as_events
from nasty_fleet import START, nasty_fleet
from pipeline import create_loose_sources, insert_rows, score, table_differences

Row = dict[str, Any]
INCREMENTAL, REFRESHED = SCHEMA, "refreshed"


@dataclass
class Step:
    """A run: new rows, deleted rows, and the as-of."""

    as_of: datetime
    arrivals: dict[str, list[Row]]
    deletions: list[tuple[str, datetime, datetime]] = field(default_factory=list)


def daily_steps(days: int, seed: int = 11) -> list[Step]:
    """Return a run per day, with late, unordered and duplicate arrivals, a missed run, one without new rows and a
    repeated one."""
    as_ofs = [START + timedelta(days=d) for d in range(1, days + 1)]
    del as_ofs[days // 2]  # missed run
    as_ofs.insert(days // 3, as_ofs[days // 3])  # repeated run
    steps = _steps(as_ofs, timedelta(days=3), days, seed, late=timedelta(days=2.4))
    # A day of one agent is deleted within the restatement window. Days with duplicates are excluded: as events, a
    # duplicate would return to its original time, which is late.
    inside = as_ofs[-1] - timedelta(days=3), as_ofs[-1]
    days_of: dict[tuple[str, str], set[datetime]] = {}
    for step in steps:
        for row in step.arrivals.get("covenant_traces", ()):
            day = row["timestamp"].replace(hour=0, minute=0, second=0, microsecond=0)
            days_of.setdefault((row["agent_id_hash"], row["trace_id"]), set()).add(day)
    moved = {(agent, day) for (agent, _), on in days_of.items() if len(on) > 1 for day in on}
    victims = {
        (agent, day)
        for (agent, _), on in days_of.items()
        for day in on
        if agent and agent.strip() and inside[0] <= day < inside[1]
    }
    agent, day = min(victims - moved)
    steps[-1].deletions.append((agent, day, day + timedelta(days=1)))
    return steps


def hourly_steps(runs: int, days: int, seed: int = 12) -> list[Step]:
    """Return runs after one or more hours."""
    rng = random.Random(seed)
    hours = sorted(rng.sample(range(12, days * 24), runs))
    return _steps(
        [START + timedelta(hours=h) for h in hours], timedelta(hours=48), days, seed, late=timedelta(hours=40)
    )


def _steps(as_ofs: list[datetime], lookback: timedelta, days: int, seed: int, late: timedelta) -> list[Step]:
    rng = random.Random(seed)
    fleet = nasty_fleet(seed, agents=6, days=days, traces_per_day=10)
    steps = [Step(as_of, {}) for as_of in as_ofs]
    quiet = len(as_ofs) // 4  # no new rows for this run
    for table, moment_of in (("covenant_traces", "timestamp"), ("wbd_deferrals", "created_at")):
        rows = fleet[table]
        rng.shuffle(rows)
        for row in rows:
            moment = row[moment_of] or START
            arrives = moment + (late * rng.random() if rng.random() < 0.2 else timedelta())
            first = next((i for i, s in enumerate(steps) if s.as_of > arrives and i != quiet), len(steps) - 1)
            # No row arrives after the restatement window of its run, because late data has other tests.
            while first > 0 and moment < min(steps[first - 1].as_of, steps[first].as_of) - lookback:
                first -= 1
            steps[first].arrivals.setdefault(table, []).append(row)
    # A run uses the current keys, statuses and outcomes. To make replay and full refresh comparable, keys and
    # deferrals are complete from the start.
    steps[0].arrivals["covenant_public_keys"] = fleet["covenant_public_keys"]
    steps[0].arrivals["wbd_deferrals"] = fleet["wbd_deferrals"]
    for step in steps[1:]:
        step.arrivals.pop("wbd_deferrals", None)
    return steps


def replay(
    server: embedded.Server, database: str, folder: Path, steps: list[Step], cli_vars: dict[str, Any]
) -> Iterator[str]:
    """Replay the steps into one schema, score the same data from scratch into another, and yield the differences.

    If the variable ciris_source is events, runs read events instead of traces.
    """
    profiles = {}
    for schema in (INCREMENTAL, REFRESHED):
        profiles[schema] = folder / schema
        profiles[schema].mkdir()
        embedded.write_profile(profiles[schema], server, database=database, schema=schema)
    with psycopg.connect(server.conninfo(database), autocommit=True, options="-c timezone=UTC") as connection:
        create_loose_sources(connection)
        if cli_vars.get("ciris_source") == "events":
            write_as_events(connection)
        for number, step in enumerate(steps, 1):
            apply(connection, step)
            print(
                f"run {number} of {len(steps)}, as of {step.as_of:%Y-%m-%d %H:%M}",
                file=sys.stderr,
                flush=True,
            )
            score(profiles[INCREMENTAL], step.as_of, cli_vars)
        score(profiles[REFRESHED], steps[-1].as_of, cli_vars)
        yield from table_differences(connection, INCREMENTAL, REFRESHED)


def apply(connection: psycopg.Connection, step: Step) -> None:
    """Apply a step's changes to the sources."""
    for table, rows in step.arrivals.items():
        insert_rows(connection, table, rows)
    for agent, start, end in step.deletions:
        connection.execute(
            'delete from cirislens.covenant_traces where agent_id_hash = %s and "timestamp" >= %s and "timestamp" < %s',
            [agent, start, end],
        )


def main() -> int:
    """Run the soak test. The exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60, help="daily runs")
    parser.add_argument("--hourly-runs", type=int, default=24, help="hourly runs over 5 days")
    parser.add_argument("--events", action="store_true", help="read events in the place of traces")
    options = parser.parse_args()
    different = 0
    source = AS_EVENTS if options.events else {}
    cases = {
        "days": (daily_steps(options.days), source),
        "hours": (hourly_steps(options.hourly_runs, 5), source | {"ciris_scoring_period": "hour"}),
    }
    for name, (steps, cli_vars) in cases.items():
        with embedded.throw_away() as server, tempfile.TemporaryDirectory() as folder:
            differences = list(replay(server, embedded.DATABASE, Path(folder), steps, cli_vars))
        different += len(differences)
        print(f"{name}: {len(steps)} runs, {len(differences)} tables differ", *differences, sep="\n  ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
