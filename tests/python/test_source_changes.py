"""Tests of the start of a run's checks: the first changed period within the restatement window.

test_increments.py tests by replay that incremental runs equal a full refresh while traces arrive late and are edited.
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
RESCORE = ("--from", "2026-06-08", "--to", "2026-06-09", "--allow-rescoring", "--step-days", "61")
DAY_OF_TRACE = "2026-06-12T00:00:00+00:00"
AGAIN = "create table public.kept as select * from {traces} {where}; delete from {traces} {where};"


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


def judge(database: Database, *models: str) -> None:
    # A command without int_scoring_run uses the as-of of the last run.
    as_of = NEWEST if "int_scoring_run" in models else PUBLISHED
    outcome = dbt(database, "run", "--select", *models, variables={"ciris_as_of": as_of})
    assert outcome.succeeded, outcome.said


def test_run_without_new_traces_checks_nothing_again(published):
    assert judged_from(published, as_of=PUBLISHED) == PUBLISHED.replace("Z", "+00:00")


def test_run_with_a_new_day_checks_only_that_day(published):
    assert judged_from(published) == PUBLISHED.replace("Z", "+00:00")


EDITS = {
    "a flag": f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}",
    "a flag there and back": "; ".join(
        [f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}"] * 2
    ),
    "a row that goes": f"delete from {TRACES} {ONE_TRACE}",
    "a row that comes": f"insert into {TRACES} select * from {TRACES} {ONE_TRACE}",
    "a row in place of another": AGAIN.format(traces=TRACES, where=ONE_TRACE)
    + f"insert into {TRACES} select * from public.kept",
    "all rows of a day": f"""delete from {TRACES} where "timestamp" >= '2026-06-12' and "timestamp" < '2026-06-13'""",
}


@pytest.mark.parametrize("edit", EDITS)
def test_any_edit_of_a_row_is_seen(published, edit):
    with published.connect() as connection:
        connection.execute(f"alter table {TRACES} drop constraint if exists covenant_traces_pkey")
        connection.execute(EDITS[edit])
    assert judged_from(published) == DAY_OF_TRACE


def revoke_a_key(connection: psycopg.Connection) -> None:
    connection.execute("update cirislens.covenant_public_keys set revoked_at = '2026-06-12T12:00Z'")


def hide_behind_a_view(connection: psycopg.Connection) -> None:
    connection.execute(f"create view cirislens.a_view as select * from {TRACES}")


def rewrite_all_rows(connection: psycopg.Connection) -> None:
    connection.execute(f"update {TRACES} set trace_id = trace_id")
    connection.execute(f"vacuum full {TRACES}")


@pytest.mark.parametrize(
    ("change", "variables"),
    [
        (revoke_a_key, {}),
        (hide_behind_a_view, {"ciris_covenant_traces_table": "a_view"}),
        (rewrite_all_rows, {}),
    ],
)
def test_change_that_affects_all_traces_checks_the_whole_window(
    published, change: Callable[[psycopg.Connection], None], variables: dict[str, str]
):
    with published.connect() as connection:
        change(connection)
    assert judged_from(published, **variables) == LOOKBACK


@pytest.mark.parametrize(
    "models",
    [
        pytest.param(
            ("int_source_periods", "int_scoring_run", "int_trace_checks"), id="a run that did not end"
        ),
        pytest.param(("int_source_periods",), id="a run that ended at once"),
        pytest.param(("int_trace_checks",), id="verdicts alone"),
    ],
)
def test_row_seen_only_by_an_unpublished_run_is_checked_again(published, models):
    """Between two complete runs, a third one checked the row or read the source with it."""
    comer = "trace_id = 'came-and-went'"
    with published.connect() as connection:
        connection.execute(f"create table public.comer as select * from {TRACES} {ONE_TRACE}")
        connection.execute("update public.comer set trace_id = 'came-and-went'")
        connection.execute(f"insert into {TRACES} select * from public.comer")
    judge(published, *models)
    with published.connect() as connection:
        connection.execute(f"delete from {TRACES} where {comer}")
    assert run(published).exit_code == 0
    with published.connect() as connection:
        [n] = one_row(connection.execute(f"select count(*) from {VERDICTS} where {comer}"))
    assert n == 0


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


def die(database: Database) -> None:
    """Simulate a run that ends after checking the traces."""
    judge(database, "int_source_periods", "int_scoring_run", "int_trace_checks")


def rescore(database: Database) -> None:
    result = run(database, *RESCORE, as_of=None)
    assert result.exit_code == 0, result.output


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


@pytest.mark.parametrize(
    ("happened", "gone_until"),
    [(die, "2026-06-12"), (die, "2026-06-15"), (rescore, "2026-06-12"), (upgrade, "2026-06-12")],
)
def test_deleted_traces_at_start_of_restatement_window_are_noticed(
    published, happened: Callable[[Database], None], gone_until: str
):
    """All traces of its first day, or of the whole window, are deleted, so no source row is left in these periods."""
    happened(published)
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


def test_deleted_traces_at_start_of_restatement_window_are_noticed_by_hour(published):
    """A period of an hour can have a single trace."""
    hourly = {"ciris_scoring_period": "hour"}
    with published.connect() as connection:
        connection.execute(
            f"drop schema {SCHEMA}, {SCHEMA}_staging, {SCHEMA}_intermediate cascade; "
            f"""delete from {TRACES} where "timestamp" < '2026-06-11'"""
        )
        assert run(published, as_of="2026-06-13T22:00Z", variables=hourly).exit_code == 0
        upgrade(published)
        first_hours = """where "timestamp" >= '2026-06-11T22:00Z' and "timestamp" < '2026-06-12T02:00Z'"""
        gone = connection.execute(f"delete from {TRACES} {first_hours}")
        assert gone.rowcount > 0
        result = run(published, as_of="2026-06-13T23:00Z", variables=hourly)
        assert result.exit_code == 0, result.output[-2000:]
        last_hour = "2026-06-13T23:00Z"
        connection.execute(f"""delete from {TRACES} where "timestamp" >= %s""", [last_hour])
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
