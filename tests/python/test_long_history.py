"""Test that the scores of three years of history equal the reference implementation to 1e-9, also at late as-ofs.

The reference does not use powers and running totals, whose rounding errors could grow. One agent sends traces all the
time; another one is silent for years in between. The system's server is tested, because PostgreSQL 15 keeps fewer
digits in a power than later versions. ALL_HOURS=1 tests traces on every day, by day and by hour (`make soak`).
"""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ciris_scoring.lab.embedded import Server
from ciris_scoring.windows.reading import BLOCK_PERIODS
from conftest import fresh_database
from nasty_fleet import nasty_fleet
from pipeline import differences_from_reference, load_rows, score

ALL_HOURS = bool(os.environ.get("ALL_HOURS"))
DAYS = 3 * 365
BUSY = [(0, DAYS)] if ALL_HOURS else [(0, 40), (490, 520), (780, 800), (1055, DAYS)]
"""Ranges of days with traces. Few days are enough. A block of periods ends on day 500. Days 780 to 800 are about 300
days old at the last as-of, so only the longest window of episodes (364 days) contains them."""
SILENT = (100, DAYS - 100)
"""Range of days in which one agent has no traces."""
FIRST = datetime.fromisoformat("2021-06-01T00:00:00Z")
LAST = FIRST + timedelta(days=DAYS)
PERIODS = {"hour": timedelta(hours=1), **({"day": timedelta(days=1)} if ALL_HOURS else {})}


def compared_as_ofs(period: timedelta) -> list[datetime]:
    """Return the as-ofs to compare: the first one, the last two, some near the ends of ``SILENT``, and random ones."""
    rng = random.Random(1)
    between = [
        FIRST + timedelta(days=begin) + rng.randrange(1, timedelta(days=end - begin) // period) * period
        for begin, end in BUSY
        for _ in range(12 // len(BUSY))
    ]
    around = [FIRST + timedelta(days=day) for day in (100, 107, 130, 131, DAYS - 99, DAYS - 92, DAYS - 70)]
    return [FIRST + period, *around, *between, LAST - period, LAST]


def ends_of_blocks(first: datetime, period: timedelta) -> list[datetime]:
    """Return the last as-of of each block of periods that is computed at once, and the first as-of of the next one."""
    starts = [first + n * BLOCK_PERIODS * period for n in range(1, DAYS)]
    return [at for start in starts if start < LAST for at in (start - period, start)]


@pytest.mark.slow
@pytest.mark.parametrize("period", PERIODS)
def test_three_years_equal_reference(system_postgres: Server, tmp_path: Path, period: str) -> None:
    """The first run scores almost the whole history. The second run is an increment of three periods."""
    fleet = nasty_fleet(8, agents=1, days=DAYS, traces_per_day=2, start=FIRST)
    traces = fleet.pop("covenant_traces")
    silent = min(row["agent_id_hash"] for row in traces if row["agent_id_hash"].strip())

    def arrives(row: dict) -> bool:
        day = (row["timestamp"] - FIRST).days
        is_silent = row["agent_id_hash"] == silent and SILENT[0] <= day < SILENT[1]
        return not is_silent and any(first <= day < last for first, last in BUSY)

    variables, length = {"ciris_scoring_period": period}, PERIODS[period]
    with fresh_database(system_postgres, tmp_path) as database, database.connect() as connection:
        load_rows(connection, fleet | {"covenant_traces": filter(arrives, traces)})
        for as_of in (LAST - 3 * length, LAST):
            score(database.profiles_dir, as_of, variables)
        [[first]] = connection.execute("select min(as_of) from ciris.fct_capacity_scores").fetchall()
        as_ofs = [*compared_as_ofs(length), *ends_of_blocks(first, length)]
        assert differences_from_reference(connection, LAST, period=period, as_ofs=as_ofs) == []
