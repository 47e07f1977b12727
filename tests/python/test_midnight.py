"""Tests of commands before and after midnight UTC: models after int_scoring_run use that run's as-of, not the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from command_line import succeeded
from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import dbt, marts, refusal, run
from test_gate import BEFORE, NEWEST, NO_TRIGGER, trigger

SCORED_UNTIL = BEFORE
MIDNIGHT = datetime.fromisoformat(NEWEST)
EVENING, MORNING = MIDNIGHT - timedelta(hours=1), MIDNIGHT + timedelta(hours=1)


@contextmanager
def clock(moment: datetime) -> Iterator[None]:
    """Make dbt use a fixed start time."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: timezone | None = None) -> datetime:  # type: ignore[override]
            return moment

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dbt.tracking.datetime", Clock)
        yield


def at(moment: datetime, database: Database, *command: str) -> Any:
    with clock(moment):
        return dbt(database, *command)


def last_log_row(database: Database) -> tuple:
    with database.connect() as connection:
        return connection.execute(
            "select as_of, outcome, published_until from ciris_intermediate.int_runs order by started_at desc limit 1"
        ).fetchone()


@pytest.mark.slow
def test_models_built_after_midnight_use_the_as_of_of_their_run(small_fleet):
    """In the evening all models except the alerts are built. A build of the alerts with another as-of is refused. Next
    morning, a build of the alerts without an as-of fails on a full disk, and a retry succeeds. Then all models after
    int_scoring_run are built with the new as-of. In the end the marts equal those of a full refresh."""
    moment, alerts = datetime.fromisoformat(BEFORE), "fct_capacity_alerts+"
    succeeded(at(EVENING, small_fleet, "build", "--exclude", alerts))
    before = marts(small_fleet)
    said = refusal(dbt(small_fleet, "build", "--select", alerts, variables={"ciris_as_of": NEWEST}))
    for text in ("ciris_as_of is '2026-06-15T00:00:00Z'", "2026-06-14T00:00:00Z", "ciris-scoring run"):
        assert text in said
    assert marts(small_fleet) == before
    assert last_log_row(small_fleet)[:2] == (moment, "failed")

    with small_fleet.connect() as connection:
        connection.execute(trigger(".fct_capacity_alerts", "raise exception 'the disk is full';"))
        part = at(MORNING, small_fleet, "build", "--select", alerts)
        connection.execute(NO_TRIGGER)
    assert "the disk is full" in refusal(part)
    assert last_log_row(small_fleet)[:2] == (moment, "failed")

    succeeded(at(MORNING, small_fleet, "retry"))
    assert last_log_row(small_fleet) == (moment, "published", moment)

    succeeded(at(MORNING, small_fleet, "build", "--select", "int_scoring_run+"))
    assert last_log_row(small_fleet)[0] == MIDNIGHT
    found = marts(small_fleet, without=RUN_TIMES)
    assert run(small_fleet, "--full-refresh", "--allow-rescoring", as_of=NEWEST).exit_code == 0
    assert marts(small_fleet, without=RUN_TIMES) == found
