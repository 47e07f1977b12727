"""The step of the intervals on a real database: what waits, what it writes, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import psycopg
import pytest

from ciris_scoring.basics.errors import StepError
from ciris_scoring.steps.fixed_copy import Numbers, read_numbers, write_numbers
from ciris_scoring.steps.intervals import Parameters, Window
from ciris_scoring.steps.limits.block import blocks
from ciris_scoring.steps.limits.setting import Setting
from ciris_scoring.steps.limits.step import run_limits_step
from ciris_scoring.steps.limits.waiting import Fleet
from ciris_scoring.trial.embedded import SCHEMA, Server
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import MARTS, create_loose_sources, insert_rows
from test_bad_input import dbt, fleet_database, restore, run, saved

DAYS = 10
AS_OF = START + timedelta(days=DAYS)
FIRST_HALF = ("build", "--selector", "before_resilience")
INTERMEDIATE = f"{SCHEMA}_intermediate"


@pytest.fixture(scope="module")
def scored(
    embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, str]]:
    """A nasty fleet, scored, and its saved state."""
    with fleet_database(embedded_postgres, tmp_path_factory.mktemp("fleet")) as database:
        with database.connect() as connection:
            connection.execute("drop schema if exists cirislens cascade")
            create_loose_sources(connection)
            for table, rows in nasty_fleet(3, agents=5, days=DAYS).items():
                insert_rows(connection, table, rows)
        result = run(database, as_of=AS_OF.isoformat())
        assert result.exit_code == 0, result.output
        with saved(database) as state:
            yield database, state


@pytest.fixture
def connection(scored: tuple[Database, str]) -> Iterator[psycopg.Connection]:
    database, state = scored
    restore(database, state)
    with database.connect() as connection:
        connection.execute(f"set search_path to {INTERMEDIATE}")
        yield connection


def limits(connection: psycopg.Connection) -> list[tuple]:
    """All limits but for when they were computed, and the fleet's values."""
    rows = connection.execute(
        "select to_jsonb(l) - 'computed_at' from int_score_limits as l order by agent_id_hash, as_of, window_days"
    ).fetchall()
    return (
        rows
        + connection.execute(
            "select to_jsonb(v) - 'computed_at' from int_interval_fleet_values as v order by as_of, window_days"
        ).fetchall()
    )


def counts(connection: psycopg.Connection, **options) -> tuple[int, int, int]:
    return tuple(run_limits_step(connection, MARTS, **options)[:3])


def test_every_scored_row_has_limits_and_running_again_writes_nothing(connection):
    [[n, n_limits]] = connection.execute(
        "select (select count(*) from int_resilience_inputs), (select count(*) from int_score_limits)"
    ).fetchall()
    assert n == n_limits > 50
    before = connection.execute("select * from int_score_limits order by 1, 2, 3").fetchall()
    assert counts(connection) == (0, 0, 0)
    assert connection.execute("select * from int_score_limits order by 1, 2, 3").fetchall() == before


@pytest.mark.parametrize(
    ("chunk_agents", "read_agents", "block_periods"), [(1, 2, 4000), (2, 3, 3), (100, 1, 1), (1, 100, 5)]
)
def test_neither_chunks_nor_blocks_change_a_bit(
    connection, chunk_agents, read_agents, block_periods, monkeypatch
):
    monkeypatch.setattr("ciris_scoring.steps.limits.step.REPORT_SECONDS", -1.0)
    before = limits(connection)
    connection.execute("delete from int_interval_fleet_values")
    [[n]] = connection.execute("select count(*) from int_resilience_inputs").fetchall()
    lines: list[str] = []
    sizes = {"chunk_agents": chunk_agents, "read_agents": read_agents, "block_periods": block_periods}
    done = counts(connection, **sizes, report=lines.append)
    assert done == (n, n, 0)
    assert lines[-1] == f"intervals: {n:,} of {n:,} rows computed"
    assert len(lines) > 3
    assert limits(connection) == before


def test_one_late_trace_makes_the_fleets_wait_that_remember_it_and_no_others(scored, connection):
    """A trace of one agent, 40 hours before the as-of: its as-ofs are made again for everybody."""
    database, _ = scored
    computed = "select as_of, window_days, computed_at from int_interval_fleet_values"
    before = {row[:2]: row[2] for row in connection.execute(computed).fetchall()}
    agents = connection.execute("select count(distinct agent_id_hash) from int_score_limits").fetchone()
    assert agents is not None and agents[0] > 3
    moment = AS_OF - timedelta(hours=40)
    connection.execute(
        'insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp", action_was_overridden)'
        " select agent_id_hash, 'late', %s, true from cirislens.covenant_traces"
        " where agent_id_hash is not null and btrim(agent_id_hash) <> '' order by 1 limit 1",
        [moment],
    )
    first = dbt(database, *FIRST_HALF, variables={"ciris_as_of": AS_OF.isoformat()})
    assert first.succeeded, first.said
    waiting, written, deleted = counts(connection)
    assert waiting == written > 0 and deleted == 0
    after = {row[:2]: row[2] for row in connection.execute(computed).fetchall()}
    changed = {key for key in after if after[key] != before[key]}
    as_ofs = {as_of.astimezone(UTC) for as_of, _ in changed}
    assert as_ofs == {AS_OF - timedelta(days=1), AS_OF}
    assert {window for _, window in changed} == {7, 30}
    [[stale]] = connection.execute(
        "select count(*) from int_score_limits where computed_at < (select max(computed_at) from int_score_limits)"
        " and as_of in %s".replace("in %s", "= any(%s)"),
        [list(as_ofs)],
    ).fetchall()
    assert stale == 0


def test_limits_whose_inputs_are_gone_are_deleted(connection):
    gone = connection.execute("select count(*) from int_score_limits where as_of = %s", [AS_OF]).fetchone()
    connection.execute("delete from int_interval_inputs where as_of = %s", [AS_OF])
    assert counts(connection) == (0, 0, gone[0])
    for table in ("int_score_limits", "int_interval_fleet_values"):
        assert connection.execute(f"select count(*) from {table} where as_of = %s", [AS_OF]).fetchone() == (
            0,
        )


# --- what must stop it, leaving everything as it was ---------------------------------------------------------------


REFUSED = {
    "other parameters": (
        "update int_interval_inputs set inputs_digest = 'new', step_parameters = '1|24|other'",
        "made for other parameters",
    ),
    "another version": (
        "update int_interval_inputs set inputs_digest = 'new',"
        " step_parameters = regexp_replace(step_parameters, '^[0-9]+', '0')",
        "another version of the project",
    ),
    "a row that is gone": (
        "update int_interval_inputs set inputs_digest = 'new';"
        " delete from int_incompleteness_awareness where (agent_id_hash, as_of, window_days) ="
        " (select agent_id_hash, as_of, window_days from int_resilience_inputs limit 1)",
        "was made from .* scored rows, but there are",
    ),
    "nine bins": (
        "update int_interval_inputs set inputs_digest = 'new';"
        " update int_agent_periods set judged_by_bin = judged_by_bin[2:] where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "do not have ten bins",
    ),
    "a null count": (
        "update int_interval_inputs set inputs_digest = 'new';"
        " update int_agent_periods set n_unsafe = null where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "hold a null",
    ),
    "an unusable parameter": (
        "update int_interval_inputs set inputs_digest = 'new';"
        " update int_scoring_parameters set parameter_value = 'yes' where parameter_name = 'replay_enabled'",
        "replay_enabled is 'yes'",
    ),
    "a missing table": ("drop table int_score_limits cascade", "int_score_limits does not exist"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_do_not_fit_are_refused(connection, case):
    statement, message = REFUSED[case]
    kept = "int_interval_fleet_values" if "missing" in case else "int_score_limits"
    before = connection.execute(f"select * from {kept} order by 1, 2, 3").fetchall()
    connection.execute(statement)
    with pytest.raises(StepError, match=message) as caught:
        run_limits_step(connection, MARTS)
    assert caught.value.hint
    assert connection.execute(f"select * from {kept} order by 1, 2, 3").fetchall() == before


def test_a_failure_in_the_middle_changes_nothing(connection):
    before = limits(connection)
    connection.execute("delete from int_interval_fleet_values where as_of = %s", [AS_OF])
    without = limits(connection)
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'the disk is full'; end $$;"
        "create trigger refuse before insert on int_interval_fleet_values"
        " for each row execute function public.refuse()"
    )
    with pytest.raises(psycopg.errors.RaiseException):
        run_limits_step(connection, MARTS)
    assert limits(connection) == without
    connection.execute("drop function public.refuse cascade")
    run_limits_step(connection, MARTS)
    assert limits(connection) == before


def test_a_connection_lost_in_the_middle_changes_nothing(scored, connection, monkeypatch):
    monkeypatch.setattr("ciris_scoring.steps.limits.step.REPORT_SECONDS", -1.0)
    database, _ = scored
    before = limits(connection)
    connection.execute("delete from int_interval_fleet_values")
    without = limits(connection)

    def end_the_session(_: str) -> None:
        with database.connect() as other:
            other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])

    with pytest.raises(psycopg.OperationalError):
        run_limits_step(connection, MARTS, chunk_agents=1, report=end_the_session)
    with database.connect() as other:
        other.execute(f"set search_path to {INTERMEDIATE}")
        assert limits(other) == without
        run_limits_step(other, MARTS)
        assert limits(other) == before


# --- parts that need no pipeline -----------------------------------------------------------------------------------


def fleets_at(*days: int) -> list[Fleet]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [Fleet(start + timedelta(days=day), 7, "digest", 1) for day in days]


def test_blocks_end_where_memories_do_and_where_they_get_long():
    setting = Setting(Parameters(), (Window(7, 23, 30), Window(30, 30, 30)), timedelta(days=1), "")
    found = list(blocks(fleets_at(0, 1, 1, 61, 122, 123, 130, 140), setting, block_periods=10))
    days = [[(fleet.as_of - datetime(2026, 1, 1, tzinfo=UTC)).days for fleet in b.fleets] for b in found]
    assert days == [[0, 1, 1], [61], [122, 123, 130], [140]]
    assert all(b.origin == b.fleets[0].as_of - timedelta(days=60) for b in found)
    assert list(blocks([], setting)) == []


def test_numbers_travel_unchanged(database):
    with database.connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("create temporary table numbers (i int8, x float8)")
        integers = np.array([0, -1, 2**62, -(2**62)], dtype=np.int64)
        floats = np.array([0.1, np.nan, np.inf, -5e-324])
        write_numbers(cursor, "numbers", {"i": integers, "x": floats})
        columns = {"one": Numbers("int8"), "two": Numbers("int8", 2), "real": Numbers("float8", 1)}
        query = psycopg.sql.SQL("select i, array[i, i], array[x] from numbers where i <> %(none)s")
        found = read_numbers(cursor, query, {"none": 7}, columns)
        assert found["one"].tolist() == integers.tolist()
        assert found["two"].tolist() == [[i, i] for i in integers]
        assert found["real"].tobytes() == floats[:, None].tobytes()
        nothing = psycopg.sql.SQL("select i, array[i, i], array[x] from numbers where false")
        assert read_numbers(cursor, nothing, {}, columns)["two"].shape == (0, 2)
        for unsound in (
            "null, array[i, i], array[x]",
            "i, array[i], array[x]",
            "i, array[i, null], array[x]",
        ):
            with pytest.raises(StepError):
                read_numbers(cursor, psycopg.sql.SQL(f"select {unsound} from numbers"), {}, columns)
