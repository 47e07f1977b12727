"""Tests of years of history against the reference implementation, which uses no powers or totals, to 1e-9 at all ages.

Some agents send traces all the time; one is silent for years in between. The system's server is tested, because
PostgreSQL 15 keeps fewer digits in a power than later versions. ALL_HOURS=1 tests three years by hour with traces on
every day, on the embedded server (`make soak`).
"""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta
from pathlib import Path

import psycopg

from ciris_scoring.lab.embedded import SCHEMA, Server
from conftest import Database, fresh_database
from nasty_fleet import nasty_fleet
from pipeline import create_loose_sources, differences_from_reference, insert_rows, score

ALL_HOURS = bool(os.environ.get("ALL_HOURS"))
BUSY = [(0, 40), (500, 530), (1055, 1095)]
"""Days with traces in three years. Few are enough, because only the age of the first trace matters."""
PERIODS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
Stretches = list[tuple[int, int]]
FIRST_DAY = datetime.fromisoformat("2021-06-01T00:00:00Z")


def load_years(
    connection: psycopg.Connection, days: int, traces_per_day: int, busy: Stretches | None = None
) -> datetime:
    """Load two agents. One is silent from day 100 until 100 days before the end.

    :param busy: ranges of days (end exclusive) with traces; default: every day.
    """
    create_loose_sources(connection)
    fleet = nasty_fleet(8, agents=1, days=days, traces_per_day=traces_per_day, start=FIRST_DAY)
    end = FIRST_DAY + timedelta(days=days)
    silent = min(row["agent_id_hash"] for row in fleet["covenant_traces"] if row["agent_id_hash"].strip())
    fleet["covenant_traces"] = [
        row
        for row in fleet["covenant_traces"]
        if row["agent_id_hash"] != silent
        or not FIRST_DAY + timedelta(days=100) <= row["timestamp"] < end - timedelta(days=100)
    ]
    if busy is not None:
        fleet["covenant_traces"] = [
            row
            for row in fleet["covenant_traces"]
            if any(first <= (row["timestamp"] - FIRST_DAY).days < last for first, last in busy)
        ]
    for table, rows in fleet.items():
        insert_rows(connection, table, rows)
    return end


def ages(
    first: datetime, last: datetime, period: timedelta, n: int, busy: Stretches | None = None
) -> list[datetime]:
    """Return as-ofs of all ages: the first and last ones, those around the silence, and some in between."""
    rng = random.Random(1)
    stretches = busy or [(0, (last - first).days)]
    between = [
        first + timedelta(days=begin) + rng.randrange(1, timedelta(days=end - begin) // period) * period
        for begin, end in stretches
        for _ in range(n // len(stretches))
    ]
    silence = [first + timedelta(days=d) for d in (100, 107, 130, 131)]
    back = [last - timedelta(days=d) for d in (99, 92, 70)]
    return [first + period, *silence, *between, *back, last - period, last]


YEARS = {"day": (5 * 365, 3), "hour": (3 * 365, 2)}
"""Days of history and traces a day."""


def years_in_one_refresh_and_in_increments(
    database: Database, period: str, busy: Stretches | None = None
) -> None:
    variables = {"ciris_scoring_period": period}
    days, traces_per_day = YEARS[period]
    with database.connect() as connection:
        last = load_years(connection, days, traces_per_day, busy)
        as_ofs = ages(FIRST_DAY, last, PERIODS[period], 12, busy)
        score(database.profiles_dir, last - 3 * PERIODS[period], variables)
        score(database.profiles_dir, last, variables)
        assert differences_from_reference(connection, SCHEMA, last, period=period, as_ofs=as_ofs) == []


def test_years_by_day_equal_reference(system_postgres: Server, tmp_path: Path) -> None:
    with fresh_database(system_postgres, tmp_path) as database:
        years_in_one_refresh_and_in_increments(database, "day")


def test_years_by_hour_equal_reference(
    system_postgres: Server, embedded_postgres: Server, tmp_path: Path
) -> None:
    server, busy = (embedded_postgres, None) if ALL_HOURS else (system_postgres, BUSY)
    with fresh_database(server, tmp_path) as database:
        years_in_one_refresh_and_in_increments(database, "hour", busy)
