"""Replay a fleet one run at a time, as a scheduler would have seen it, and hold the result against a full refresh.

`python tests/programs/replay.py` is the long version (`make soak`): 60 daily runs, and 24 hourly runs of uneven length.
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
    """One run: what arrived since the last one, what the source lost, and the as-of."""

    as_of: datetime
    arrivals: dict[str, list[Row]]
    deletions: list[tuple[str, datetime, datetime]] = field(default_factory=list)


def daily_steps(days: int, seed: int = 11) -> list[Step]:
    """A run a day: late, disordered and duplicated arrivals, a missed run, one with nothing new, one made twice."""
    as_ofs = [START + timedelta(days=d) for d in range(1, days + 1)]
    del as_ofs[days // 2]  # missed
    as_ofs.insert(days // 3, as_ofs[days // 3])  # made twice
    steps = _steps(as_ofs, timedelta(days=3), days, seed, late=timedelta(days=2.4))
    # A day of one agent vanishes from the source while it still lies inside the lookback. Without a trace that was sent
    # again on another day: as events that one would go back to where it was before, which is late.
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
    """Runs of uneven length, from one hour to many."""
    rng = random.Random(seed)
    hours = sorted(rng.sample(range(12, days * 24), runs))
    return _steps(
        [START + timedelta(hours=h) for h in hours], timedelta(hours=48), days, seed, late=timedelta(hours=40)
    )


def _steps(as_ofs: list[datetime], lookback: timedelta, days: int, seed: int, late: timedelta) -> list[Step]:
    rng = random.Random(seed)
    fleet = nasty_fleet(seed, agents=6, days=days, traces_per_day=10)
    steps = [Step(as_of, {}) for as_of in as_ofs]
    quiet = len(as_ofs) // 4  # nothing arrives for this run
    for table, moment_of in (("covenant_traces", "timestamp"), ("wbd_deferrals", "created_at")):
        rows = fleet[table]
        rng.shuffle(rows)
        for row in rows:
            moment = row[moment_of] or START
            arrives = moment + (late * rng.random() if rng.random() < 0.2 else timedelta())
            first = next((i for i, s in enumerate(steps) if s.as_of > arrives and i != quiet), len(steps) - 1)
            # Never later than the lookback of the run that takes it: this is about increments, not about late data.
            while first > 0 and moment < min(steps[first - 1].as_of, steps[first].as_of) - lookback:
                first -= 1
            steps[first].arrivals.setdefault(table, []).append(row)
    # Keys, statuses and outcomes are read as they are at a run, so a replay that knew them later would differ by
    # right: everything that is known of a key or a deferral is there from the start.
    steps[0].arrivals["covenant_public_keys"] = fleet["covenant_public_keys"]
    steps[0].arrivals["wbd_deferrals"] = fleet["wbd_deferrals"]
    for step in steps[1:]:
        step.arrivals.pop("wbd_deferrals", None)
    return steps


def replay(
    server: embedded.Server, database: str, folder: Path, steps: list[Step], cli_vars: dict[str, Any]
) -> Iterator[str]:
    """Play the steps into one schema, score the same data from nothing into another, and yield what differs.

    With the variable ciris_source set to events, a run reads events in the place of traces.
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
    """Bring the sources to where they were before a run."""
    for table, rows in step.arrivals.items():
        insert_rows(connection, table, rows)
    for agent, start, end in step.deletions:
        connection.execute(
            'delete from cirislens.covenant_traces where agent_id_hash = %s and "timestamp" >= %s and "timestamp" < %s',
            [agent, start, end],
        )


def main() -> int:
    """The soak; exit code 1 when anything differs."""
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
