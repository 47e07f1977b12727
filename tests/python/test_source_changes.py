"""Tests of the start of a run's checks: the first changed period within the restatement window.

test_healing.py tests that every change is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.connection import one_row
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.project_files import copy_project
from command_line import at, invoke
from conftest import REPOSITORY, Database
from test_bad_input import NEWEST, dbt, restore, run

PUBLISHED = SCORED_UNTIL = "2026-06-14T00:00:00Z"
LOOKBACK = "2026-06-11T00:00:00+00:00"
TRACES = "cirislens.covenant_traces"
VERDICTS = f"{SCHEMA}_intermediate.int_trace_checks"
ONE_TRACE = f"""
    where (trace_id, "timestamp") = (
        select trace_id, "timestamp" from {TRACES} where "timestamp" >= '2026-06-12T09:00Z'
        order by "timestamp" limit 1)
    """
DAY_OF_TRACE = "2026-06-12T00:00:00+00:00"


@pytest.fixture
def published(saved_fleet: tuple[Database, str]) -> Database:
    """The fleet, scored the day before the run of the test."""
    restore(*saved_fleet)
    return saved_fleet[0]


def judged_from(database: Database, *, as_of: str = NEWEST, **variables: str) -> str:
    """Return the time from which a run would check traces again."""
    models = ("--select", "stg_cirislens__covenant_traces", "int_source_periods", "int_scoring_run")
    outcome = dbt(database, "run", *models, variables={"ciris_as_of": as_of, **variables})
    assert outcome.succeeded, outcome.said
    with database.connect() as connection:
        query = f"select rechecked_from from {SCHEMA}_intermediate.int_scoring_run"
        moment: datetime = one_row(connection.execute(query))[0]
    return moment.isoformat()


def test_run_without_new_traces_checks_nothing_again(published):
    assert judged_from(published, as_of=PUBLISHED) == PUBLISHED.replace("Z", "+00:00")


def test_run_with_a_new_day_checks_only_that_day(published):
    assert judged_from(published) == PUBLISHED.replace("Z", "+00:00")


def edit_a_trace(connection: psycopg.Connection) -> None:
    connection.execute(f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}")


def hide_behind_a_view(connection: psycopg.Connection) -> None:
    connection.execute(f"create view cirislens.a_view as select * from {TRACES}")


def rewrite_all_rows(connection: psycopg.Connection) -> None:
    connection.execute(f"update {TRACES} set trace_id = trace_id")
    connection.execute(f"vacuum full {TRACES}")


@pytest.mark.parametrize(
    ("change", "variables", "expected"),
    [
        (edit_a_trace, {}, DAY_OF_TRACE),
        (hide_behind_a_view, {"ciris_covenant_traces_table": "a_view"}, LOOKBACK),
        (rewrite_all_rows, {}, LOOKBACK),
    ],
)
def test_run_checks_from_the_day_of_a_change_or_the_whole_window(
    published, change: Callable[[psycopg.Connection], None], variables: dict[str, str], expected: str
):
    with published.connect() as connection:
        change(connection)
    assert judged_from(published, **variables) == expected


def test_late_row_that_replaces_a_deleted_row_is_counted(published):
    """Before the restatement window a row of one agent is deleted, and a row of another agent with the same time is
    added."""
    replaced = f"""
        update {TRACES} as gone
        set trace_id = 'late', agent_id_hash = (
            select min(others.agent_id_hash) from {TRACES} as others where others.agent_id_hash <> gone.agent_id_hash)
        where "timestamp" = (select min("timestamp") from {TRACES} where "timestamp" >= '2026-06-09')
        returning agent_id_hash
        """
    with published.connect() as connection:
        [agent] = one_row(connection.execute(replaced))
        assert run(published).exit_code == 0
        late = connection.execute(
            f"select agent_id_hash, period_start, n from {SCHEMA}.fct_data_quality where issue = 'late_trace'"
        ).fetchall()
    assert late == [(agent, datetime(2026, 6, 9, tzinfo=UTC), 1)]


# --- the state of the last read is unknown ---------------------------------------------------------------------------


def upgrade(database: Database) -> None:
    """Simulate an upgrade from a version that did not read the source first."""
    with database.connect() as connection:
        connection.execute(f"drop table {SCHEMA}_intermediate.int_source_periods cascade")


def unchecked(connection: psycopg.Connection) -> list[tuple]:
    """Return the times at which the numbers of source rows and checks differ."""
    return connection.execute(
        f"""
        select at, sum(n)
        from (
            select "timestamp" as at, 1 as n from {TRACES}
            union all
            select traced_at, -1 from {VERDICTS}
        ) as rows
        group by at having sum(n) <> 0
        """
    ).fetchall()


@pytest.mark.parametrize("gone_until", ["2026-06-12", "2026-06-15"])
def test_deleted_traces_at_start_of_restatement_window_are_noticed_after_an_upgrade(
    published, gone_until: str
):
    """All traces of its first day, or of the whole window, are deleted, so no source row is left in these periods."""
    upgrade(published)
    with published.connect() as connection:
        connection.execute(
            f"""delete from {TRACES} where "timestamp" >= %s and "timestamp" < %s""", [LOOKBACK, gone_until]
        )
        result = run(published)
        assert result.exit_code == 0, result.output[-2000:]
        assert unchecked(connection) == []


def test_moved_source_table_is_not_read_in_its_new_schema(published):
    """The table moves to a schema that is first in the search path. Definitions of views show the same name as
    before."""
    with published.connect() as connection:
        connection.execute("create schema archive")
        connection.execute(f"alter database {published.name} set search_path = archive, cirislens, public")
    assert run(published, as_of=PUBLISHED).exit_code == 0
    with published.connect() as connection:
        connection.execute(
            f"""
            alter table {TRACES} set schema archive;
            create table {TRACES} (like archive.covenant_traces including all);
            insert into {TRACES} table archive.covenant_traces;
            delete from archive.covenant_traces where "timestamp" >= '{PUBLISHED}'
            """
        )
        result = run(published)
        assert result.exit_code == 0, result.output[-2000:]
        assert unchecked(connection) == []


# --- changed code ----------------------------------------------------------------------------------------------------

CHANGES_OF_CODE = {
    "macros/formulas/traces.sql": ("{{ entropy_level }} > ", "{{ entropy_level }} >= "),
    "models/staging/cirislens/stg_cirislens__covenant_traces.sql": ("\nselect\n", "\nselect -- more\n"),
    "seeds/capacity_categories.csv": ("Immediate intervention", "Instant intervention"),
}


def test_changed_code_checks_traces_again(published, tmp_path: Path):
    """A macro, the staging model and a seed are changed one after the other; no trace is added."""
    project = tmp_path / "project"
    copy_project(REPOSITORY, project)
    on_the_edge = f"""
        update {TRACES} set entropy_level = 0.5, action_success = false {ONE_TRACE} returning trace_id
        """

    def run_copy() -> str:
        result = invoke("run", *at(published, project), "--as-of", NEWEST)
        assert result.exit_code == 0, result.output[-2000:]
        return " ".join(result.stderr.split())

    def rechecked_from(connection: psycopg.Connection) -> datetime:
        query = f"select rechecked_from from {SCHEMA}_intermediate.int_scoring_run"
        return one_row(connection.execute(query))[0]

    said = "The code that checks traces has changed since the last run"
    with published.connect() as connection:
        [trace] = one_row(connection.execute(on_the_edge))
        unsafe = f"select is_unsafe from {VERDICTS} where trace_id = %s"
        run_copy()
        assert said not in run_copy()
        newest = datetime.fromisoformat(NEWEST)
        assert rechecked_from(connection) == newest
        assert one_row(connection.execute(unsafe, [trace])) == (False,)
        for name, (before, after) in CHANGES_OF_CODE.items():
            path = project / name
            text = path.read_text("utf-8")
            assert before in text
            path.write_text(text.replace(before, after, 1), "utf-8")
            assert said in run_copy(), name
            assert rechecked_from(connection) == newest - timedelta(days=3), name
            assert said not in run_copy(), name
        assert one_row(connection.execute(unsafe, [trace])) == (True,)
