"""Tests of backfills: the steps, the scores that change, and ranges that are refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.project import load_project
from ciris_scoring.job.run import run_backfill
from ciris_scoring.lab.embedded import SCHEMA
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import insert_rows, kept_parsed, load_rows, score, score_rows

DAY = timedelta(days=1)
DAYS = 100
LATE_FROM, LATE_UNTIL = START + 75 * DAY, START + 80 * DAY
FIRST = LATE_FROM + DAY  # first as-of that includes late traces
LAST = START + 85 * DAY
NEWEST = START + DAYS * DAY


class Backfilled:
    """A fleet that is scored up to NEWEST. Some of its traces arrived afterwards."""

    def __init__(self, database: Database):
        self.connect, self.profiles = database.connect, database.profiles_dir
        fleet = nasty_fleet(21, agents=2, days=DAYS, traces_per_day=2)
        traces = fleet.pop("covenant_traces")
        late = [row for row in traces if LATE_FROM <= row["timestamp"] < LATE_UNTIL][::2]
        with self.connect() as connection:
            load_rows(connection, fleet)
            insert_rows(connection, "covenant_traces", [row for row in traces if row not in late])
            score(self.profiles, NEWEST)
            insert_rows(connection, "covenant_traces", late)

    def scores(self) -> dict[tuple, Any]:
        with self.connect() as connection:
            return score_rows(connection, SCHEMA)

    def backfill(self, first: datetime, last: datetime, **options: Any) -> None:
        project = load_project(REPOSITORY, self.profiles)
        given = {"step_days": 60, "allow_rescoring": True, "restart": False, **options}
        with kept_parsed(self.profiles):
            run_backfill(project, first.isoformat(), last.isoformat(), **given)


@pytest.fixture(scope="module")
def fleet(module_database: Database) -> Backfilled:
    return Backfilled(module_database)


def test_backfill_equals_full_refresh_in_its_range_and_changes_no_other_score(fleet: Backfilled) -> None:
    before = fleet.scores()
    with pytest.raises(InputError, match=r"10 as-ofs of the range are published") as refusal:
        fleet.backfill(FIRST, LAST, allow_rescoring=False)
    assert "--allow-rescoring" in refusal.value.hint
    assert fleet.scores() == before

    fleet.backfill(FIRST, LAST)
    after = fleet.scores()
    score(fleet.profiles, NEWEST, full_refresh=True, allow_rescoring=True)
    refreshed = fleet.scores()
    # Windows after the range contain late traces too, but keep their scores.
    assert any(before[key] != row for key, row in refreshed.items() if key[1] > LAST)
    assert after == before | {key: row for key, row in refreshed.items() if FIRST <= key[1] <= LAST}

    with pytest.raises(InputError, match="would leave a gap") as refusal:
        fleet.backfill(NEWEST + 2 * DAY, NEWEST + 3 * DAY)
    assert "2026-06-10T00:00:00Z" in refusal.value.hint
    with pytest.raises(InputError, match="range is empty"):
        fleet.backfill(LAST, FIRST)
