"""Tests of `backfill`: it scores a range like a full refresh, changes no other score, and can be resumed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from ciris_scoring.basics.errors import CirisError, DbtFailed, InputError
from ciris_scoring.basics.project import load_project
from ciris_scoring.job.backfill import Step, plan_steps
from ciris_scoring.job.run import run_backfill
from ciris_scoring.lab import embedded
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import MARTS, insert_rows, kept_parsed, load_rows, score, table_differences
from unfinished_runs import DIES, LIVES, WRITING_DIES

DAY = timedelta(days=1)
DAYS = 100
LATE_FROM, LATE_UNTIL = START + 75 * DAY, START + 80 * DAY
FIRST = LATE_FROM + DAY  # first as-of that includes late traces
LAST = START + 85 * DAY
NEWEST = START + DAYS * DAY
INCREMENTAL, REFRESHED, FROM_NOTHING = embedded.SCHEMA, "refreshed", "from_nothing"
ROWS = """
select agent_id_hash, as_of, window_days, to_jsonb(scores) - 'scored_at'
from {schema}.fct_capacity_scores as scores
"""


def test_steps_cover_the_range_once() -> None:
    """A week in steps of three days. Two days before the range and one after it are only checked."""
    start, first, last, until = (START + n * DAY for n in (0, 3, 9, 10))
    assert plan_steps(start, first, last, until, DAY, 3 * DAY) == (
        Step(START, START + 2 * DAY, START + 2 * DAY),  # checked, not scored
        Step(START + 2 * DAY, START + 5 * DAY, START + 2 * DAY),
        Step(START + 5 * DAY, START + 8 * DAY, START + 5 * DAY),
        Step(START + 8 * DAY, START + 9 * DAY, START + 8 * DAY),
        Step(START + 9 * DAY, START + 10 * DAY, START + 10 * DAY),  # checked, not scored
    )


def test_interrupted_steps_resume() -> None:
    start, first, last, until = (START + n * DAY for n in (5, 3, 9, 10))
    steps = plan_steps(start, first, last, until, DAY, 30 * DAY)
    assert [(step.rechecked_from, step.as_of, step.cutoff) for step in steps] == [
        (START + 5 * DAY, START + 9 * DAY, START + 5 * DAY),
        (START + 9 * DAY, START + 10 * DAY, START + 10 * DAY),
    ]


class Backfilled:
    """A fleet that is scored up to NEWEST. Some of its traces arrived afterwards."""

    def __init__(self, database: Database):
        self.profiles = {}
        for schema in (INCREMENTAL, REFRESHED, FROM_NOTHING):
            self.profiles[schema] = database.profiles_dir / schema
            self.profiles[schema].mkdir()
            embedded.write_profile(
                self.profiles[schema], database.server, database=database.name, schema=schema
            )
        self.connect = database.connect
        fleet = nasty_fleet(21, agents=5, days=DAYS, traces_per_day=2)
        traces = fleet.pop("covenant_traces")
        late = [row for row in traces if LATE_FROM <= row["timestamp"] < LATE_UNTIL][::2]
        with self.connect() as connection:
            load_rows(connection, fleet)
            insert_rows(connection, "covenant_traces", [row for row in traces if row not in late])
            score(self.profiles[INCREMENTAL], NEWEST)
            insert_rows(connection, "covenant_traces", late)
            score(self.profiles[REFRESHED], NEWEST)

    def scores(self, schema: str) -> dict[tuple, Any]:
        with self.connect() as connection:
            return {row[:3]: row[3] for row in connection.execute(ROWS.format(schema=schema))}

    def backfill(self, schema: str, first: datetime, last: datetime, **options: Any) -> None:
        project = load_project(REPOSITORY, self.profiles[schema])
        given = {"step_days": 60, "allow_rescoring": True, "restart": False, **options}
        with kept_parsed(self.profiles[schema]):
            run_backfill(project, first.isoformat(), last.isoformat(), **given)

    def repeated_keys(self, schema: str) -> dict[str, int]:
        """Return the number of repeated keys in each table by agent, as-of and window."""
        query = """
            select table_name from information_schema.columns as c
            inner join information_schema.tables as t using (table_schema, table_name)
            where table_schema = any(%s) and t.table_type = 'BASE TABLE'
                and table_name not in ('fct_record_signs', 'fct_capacity_alerts')
            group by table_name
            having array_agg(column_name::text) @> array['agent_id_hash', 'as_of', 'window_days']
            """
        count = (
            "select count(*) - count(distinct (agent_id_hash, as_of, window_days))"
            " from {schema}_intermediate.{table}"
        )
        with self.connect() as connection:
            tables = [name for (name,) in connection.execute(query, [[f"{schema}_intermediate"]])]
            assert "int_windows" in tables
            surplus = {
                table: connection.execute(count.format(schema=schema, table=table)).fetchone()[0]
                for table in tables
            }
        return {table: n for table, n in surplus.items() if n}

    def differences(self, schema: str) -> list[str]:
        with self.connect() as connection:
            return table_differences(connection, schema, REFRESHED)


@pytest.fixture(scope="module")
def fleet(module_database: Database) -> Backfilled:
    return Backfilled(module_database)


def test_backfill_of_range_and_of_later_as_ofs_equals_full_refresh(fleet: Backfilled) -> None:
    before, refreshed = fleet.scores(INCREMENTAL), fleet.scores(REFRESHED)
    assert before != refreshed, "nothing arrived late"

    # Published scores change only with explicit permission.
    with pytest.raises(InputError, match=r"10 as-ofs of the range are published") as refusal:
        fleet.backfill(INCREMENTAL, FIRST, LAST, allow_rescoring=False)
    assert "--allow-rescoring" in refusal.value.hint
    assert fleet.scores(INCREMENTAL) == before

    fleet.backfill(INCREMENTAL, FIRST, LAST)
    after = fleet.scores(INCREMENTAL)
    inside = {key for key in refreshed if FIRST <= key[1] <= LAST}
    assert {key: after[key] for key in inside} == {key: refreshed[key] for key in inside}
    assert {key: row for key, row in after.items() if key not in inside} == {
        key: row for key, row in before.items() if key not in inside
    }

    assert fleet.repeated_keys(INCREMENTAL) == {}

    # The backfill is killed in its second step. It then refuses other ranges and resumes where it stopped.
    with fleet.connect() as connection:
        connection.execute(DIES.format(table="fct_fleet_capacity", nth=2))
        connection.execute(WRITING_DIES.format(relation=MARTS.places["fct_fleet_capacity"]))
        with pytest.raises(DbtFailed, match="the disk is full"):
            fleet.backfill(INCREMENTAL, LAST, NEWEST)
        connection.execute(LIVES)
    with pytest.raises(CirisError, match=r"The backfill from .* did not end.*ciris-scoring run --from"):
        score(fleet.profiles[INCREMENTAL], NEWEST)
    fleet.backfill(INCREMENTAL, LAST, NEWEST)
    assert fleet.differences(INCREMENTAL) == []

    # An ordinary run continues afterwards.
    score(fleet.profiles[INCREMENTAL], NEWEST)
    assert fleet.differences(INCREMENTAL) == []


def test_backfill_of_whole_history_equals_full_refresh(fleet: Backfilled) -> None:
    fleet.backfill(FROM_NOTHING, START + DAY, NEWEST, allow_rescoring=False)
    assert fleet.differences(FROM_NOTHING) == []


def test_a_gap_is_refused(fleet: Backfilled) -> None:
    with pytest.raises(InputError, match="would leave a gap") as refusal:
        fleet.backfill(REFRESHED, NEWEST + 2 * DAY, NEWEST + 3 * DAY)
    assert "2026-06-10T00:00:00Z" in refusal.value.hint


def test_an_empty_range_is_refused(fleet: Backfilled) -> None:
    with pytest.raises(InputError, match="range is empty"):
        fleet.backfill(REFRESHED, LAST, FIRST)
