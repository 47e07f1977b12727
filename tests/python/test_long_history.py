"""Tests with years of history, which long_history.py creates and checks.

Both servers are tested, because PostgreSQL 15 keeps fewer digits in a power than later versions.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ciris_scoring.lab.embedded import SCHEMA, Server
from conftest import Database, fresh_database
from long_history import load_years, years_in_one_refresh_and_in_increments
from pipeline import score, score_rows

BUSY = [(0, 40), (500, 530), (1055, 1095)]
"""Days with traces in three years. Few are enough, because only the age of the first trace matters."""


def test_years_by_day_equal_reference(every_database: Database) -> None:
    years_in_one_refresh_and_in_increments(every_database, "day")


def test_years_by_hour_equal_reference(system_postgres: Server, tmp_path: Path) -> None:
    """On PostgreSQL 15, which keeps fewer digits. `make soak` tests the other server with traces on every day."""
    with fresh_database(system_postgres, tmp_path) as database:
        years_in_one_refresh_and_in_increments(database, "hour", BUSY)


def test_full_run_a_month_later_gives_the_same_scores(system_postgres: Server, tmp_path: Path) -> None:
    """A run from scratch a month later gives the same scores at the same as-ofs."""
    variables = {"ciris_scoring_period": "day"}
    with (
        fresh_database(system_postgres, tmp_path) as database,
        database.connect() as connection,
    ):
        last = load_years(connection, 3 * 365, 3)
        score(database.profiles_dir, last, variables)
        before = score_rows(connection, SCHEMA)
        later = last + timedelta(days=30)
        score(database.profiles_dir, later, variables, full_refresh=True, allow_rescoring=True)
        after = score_rows(connection, SCHEMA)
    settled = last - timedelta(days=3)
    assert {k: v for k, v in before.items() if k[1] <= settled} == {
        k: v for k, v in after.items() if k[1] <= settled
    }
