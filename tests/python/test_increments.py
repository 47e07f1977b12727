"""Tests that incremental runs give the same tables as a full refresh."""

from __future__ import annotations

from pathlib import Path

from conftest import Database
from event_lens import AS_EVENTS
from replay import daily_steps, hourly_steps, replay


def test_five_daily_runs_equal_full_refresh(database: Database, tmp_path: Path) -> None:
    assert list(replay(database.server, database.name, tmp_path, daily_steps(5), {})) == []


def test_five_daily_runs_on_events_equal_full_refresh(database: Database, tmp_path: Path) -> None:
    """Traces in the event format of the lens."""
    assert list(replay(database.server, database.name, tmp_path, daily_steps(5), AS_EVENTS)) == []


def test_four_hourly_runs_equal_full_refresh(database: Database, tmp_path: Path) -> None:
    steps = hourly_steps(4, 5)
    assert (
        list(replay(database.server, database.name, tmp_path, steps, {"ciris_scoring_period": "hour"})) == []
    )
