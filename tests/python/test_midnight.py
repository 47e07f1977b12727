"""Tests of commands before and after midnight UTC: models after int_scoring_run use that run's as-of, not the clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import dbt, marts, restore, run, saved

BEFORE, NEWEST = "2026-06-14T00:00:00Z", "2026-06-15T00:00:00Z"
EVENING, MORNING = (
    datetime.fromisoformat(NEWEST) - timedelta(hours=1),
    datetime.fromisoformat(NEWEST) + timedelta(hours=1),
)
FAILS = """
    create function public.fail() returns trigger language plpgsql as $$
    begin raise exception 'the disk is full'; end $$;
    create trigger fail before insert on {relation} for each statement execute function public.fail();
    """
FAILS_NO_MORE = "drop function public.fail cascade"


@dataclass
class States:
    database: Database
    scored: str
    """Saved state that is scored as of two days before the newest trace."""
    expected: dict[str, dict[str, str]]
    """Fingerprints of the marts after a normal run, by as-of."""


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


@pytest.fixture(scope="module")
def states(small_fleet: Database) -> Iterator[States]:
    database = small_fleet
    assert run(database, as_of="2026-06-13T00:00:00Z").exit_code == 0
    with saved(database) as scored:
        expected = {}
        for as_of in (BEFORE, NEWEST):
            assert run(database, as_of=as_of).exit_code == 0
            expected[as_of] = marts(database, without=RUN_TIMES)
        yield States(database, scored, expected)


@pytest.fixture
def database(states: States) -> Database:
    restore(states.database, states.scored)
    return states.database


def at(moment: datetime, database: Database, *command: str) -> Any:
    with clock(moment):
        return dbt(database, *command)


def last_log_row(database: Database) -> tuple:
    with database.connect() as connection:
        return connection.execute(
            "select as_of, outcome, published_until from ciris_intermediate.int_runs order by started_at desc limit 1"
        ).fetchone()


def differences(states: States, as_of: str) -> list[str]:
    found = marts(states.database, without=RUN_TIMES)
    return [name for name, rows in states.expected[as_of].items() if found[name] != rows]


def test_part_after_midnight_has_the_as_of_of_its_run(states, database):
    """A part is refused with another as-of, fails, and succeeds."""
    moment, alerts = datetime.fromisoformat(BEFORE), "fct_capacity_alerts+"
    assert at(EVENING, database, "build", "--exclude", alerts).succeeded
    before = marts(database)
    part = dbt(database, "build", "--select", alerts, variables={"ciris_as_of": NEWEST})
    assert not part.succeeded
    for text in ("ciris_as_of is '2026-06-15T00:00:00Z'", "2026-06-14T00:00:00Z", "ciris-scoring run"):
        assert text in part.said
    assert marts(database) == before
    assert last_log_row(database)[:2] == (moment, "refused")

    with database.connect() as connection:
        connection.execute(FAILS.format(relation=f"{SCHEMA}.fct_capacity_alerts"))
        part = at(MORNING, database, "build", "--select", alerts)
        connection.execute(FAILS_NO_MORE)
    assert "the disk is full" in part.said
    assert last_log_row(database)[:2] == (moment, "failed")

    retried = at(MORNING, database, "retry")
    assert retried.succeeded, retried.said
    assert last_log_row(database) == (moment, "published", moment)
    # Views and constants do not depend on the as-of.
    assert differences(states, BEFORE) == []


def test_run_that_read_its_sources_before_midnight_checks_the_next_day_too(states, database):
    """int_source_periods was built the evening before, so it lacks the traces of the last day."""
    assert at(EVENING, database, "build").succeeded
    assert at(EVENING, database, "build").succeeded
    rest = at(MORNING, database, "build", "--select", "int_scoring_run+")
    assert rest.succeeded, rest.said
    assert last_log_row(database)[0] == datetime.fromisoformat(NEWEST)
    assert differences(states, NEWEST) == []
