"""The Python model int_window_statistics, as dbt builds it: what it computes, what it keeps, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest
from ciris_scoring.statistics.fleets import Fleet, blocks
from psycopg import sql

from ciris_scoring.lab.embedded import Server, write_profile
from ciris_scoring.statistics.inputs import Parameters, Window
from ciris_scoring.statistics.setting import Setting
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows
from test_bad_input import Dbt, dbt, fleet_database, restore, run, saved

DAYS = 10
AS_OF = START + timedelta(days=DAYS)
SCHEMA = "Scores of Ægir"  # an identifier that needs quoting
STATISTICS = "select to_jsonb(s) - 'computed_at' from int_window_statistics as s order by 1"
COMPUTED = "select distinct as_of, window_days, computed_at from int_window_statistics"


@pytest.fixture(scope="module")
def scored(
    embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, str]]:
    """A nasty fleet, scored, and its saved state."""
    with fleet_database(embedded_postgres, tmp_path_factory.mktemp("fleet")) as database:
        write_profile(database.profiles_dir, database.server, database=database.name, schema=SCHEMA)
        with database.connect() as connection:
            connection.execute("drop schema if exists cirislens cascade")
            load_rows(connection, nasty_fleet(3, agents=5, days=DAYS))
        result = run(database, as_of=AS_OF.isoformat())
        assert result.exit_code == 0, result.output
        with saved(database) as state:
            yield database, state


@pytest.fixture
def database(scored: tuple[Database, str]) -> Database:
    restore(*scored)
    return scored[0]


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(f"{SCHEMA}_intermediate")))
        yield connection


def build_alone(database: Database, *options: str) -> Dbt:
    """Build the model by itself in plain dbt."""
    return dbt(
        database,
        *("run", "--select", "int_window_statistics", *options),
        variables={"ciris_as_of": AS_OF.isoformat(), "ciris_allow_rescoring": True},
    )


def computed(connection: psycopg.Connection) -> dict[tuple[datetime, int], datetime]:
    """When the rows of each as-of and window were computed: together."""
    found = connection.execute(COMPUTED).fetchall()
    times = {(as_of.astimezone(UTC), window_days): moment for as_of, window_days, moment in found}
    assert len(times) == len(found)
    return times


# --- what is computed, and what is kept ------------------------------------------------------------------------------


def test_every_scored_row_has_statistics_and_nothing_is_computed_twice(database, connection):
    [[n, n_inputs]] = connection.execute(
        "select (select count(*) from int_window_statistics), (select count(*) from int_resilience_inputs)"
    ).fetchall()
    assert n == n_inputs > 50
    before = connection.execute("select * from int_window_statistics order by 1, 2, 3").fetchall()
    assert run(database, as_of=AS_OF.isoformat()).exit_code == 0
    assert connection.execute("select * from int_window_statistics order by 1, 2, 3").fetchall() == before


@pytest.mark.parametrize(
    ("chunk_agents", "read_agents", "block_periods"), [(1, 2, 4000), (2, 3, 3), (100, 1, 1), (1, 100, 5)]
)
def test_neither_chunks_nor_blocks_change_a_bit(
    database, connection, chunk_agents, read_agents, block_periods, monkeypatch
):
    module = "ciris_scoring.statistics.window_statistics"
    monkeypatch.setattr("ciris_scoring.statistics.intervals.CHUNK_ROWS", 3)
    monkeypatch.setattr(f"{module}.agents_per_chunk", lambda n_periods: chunk_agents)
    monkeypatch.setattr(f"{module}.agents_per_read", lambda n_periods: read_agents)
    monkeypatch.setattr(f"{module}.blocks", partial(blocks, block_periods=block_periods))
    before, times = connection.execute(STATISTICS).fetchall(), computed(connection)
    done = build_alone(database, "--full-refresh")
    assert done.succeeded, done.said
    assert connection.execute(STATISTICS).fetchall() == before
    assert not set(times.values()) & set(computed(connection).values())


def test_one_late_trace_has_the_fleets_computed_that_remember_it_and_no_others(database, connection):
    """A trace of one agent, 40 hours before the as-of: its as-ofs are made again for everybody."""
    before = computed(connection)
    assert len({as_of for as_of, _ in before}) == DAYS
    connection.execute(
        'insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp", action_was_overridden)'
        " select agent_id_hash, 'late', %s, true from cirislens.covenant_traces"
        " where agent_id_hash is not null and btrim(agent_id_hash) <> '' order by 1 limit 1",
        [AS_OF - timedelta(hours=40)],
    )
    assert run(database, as_of=AS_OF.isoformat()).exit_code == 0
    after = computed(connection)
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {(AS_OF - timedelta(days=days), window) for days in (0, 1) for window in (7, 30)}


# --- what is refused, and leaves everything as it was ----------------------------------------------------------------

OTHER_DIGESTS = "update int_statistics_inputs set inputs_digest = 'new'; "
REFUSED = {
    "a row that is gone": (
        "delete from int_window_events where (agent_id_hash, as_of, window_days) ="
        " (select agent_id_hash, as_of, window_days from int_resilience_inputs limit 1)",
        r"int_statistics_inputs was made from \d+ rows, but there are \d+. Run the whole build: dbt build",
    ),
    "nine bins": (
        "update int_agent_periods set judged_by_bin = judged_by_bin[2:] where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "do not have ten bins. Build them again: dbt build --full-refresh",
    ),
    "a null in a bin": (
        "update int_agent_periods set judged_by_bin[3] = null where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "hold a null, or .* Build them again: dbt build --full-refresh",
    ),
    "a null count": (
        "alter table int_agent_periods alter n_unsafe drop not null;"
        " update int_agent_periods set n_unsafe = null where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "hold a null, or .* Build them again: dbt build --full-refresh",
    ),
    "an unusable parameter": (
        "update int_scoring_parameters set parameter_value = 'yes' where parameter_name = 'replay_enabled'",
        "replay_enabled is 'yes', which .* Build it again: dbt build --select int_scoring_parameters",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_do_not_fit_are_refused(database, connection, case):
    statement, message = REFUSED[case]
    before = connection.execute("select * from int_window_statistics order by 1, 2, 3").fetchall()
    connection.execute(OTHER_DIGESTS + statement)
    refused = build_alone(database)
    assert not refused.succeeded
    assert re.search(f"int_window_statistics.*{message}", " ".join(refused.said.split())), refused.said
    assert connection.execute("select * from int_window_statistics order by 1, 2, 3").fetchall() == before


# --- parts that need no pipeline -----------------------------------------------------------------------------------


def fleets_at(*days: int) -> list[Fleet]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [Fleet(start + timedelta(days=day), 7, "digest", 1) for day in days]


def test_blocks_end_where_memories_do_and_where_they_get_long():
    setting = Setting(Parameters(), (Window(7, 23, 30), Window(30, 30, 30)), timedelta(days=1))
    found = list(blocks(fleets_at(0, 1, 1, 61, 122, 123, 130, 140), setting, block_periods=10))
    days = [[(fleet.as_of - datetime(2026, 1, 1, tzinfo=UTC)).days for fleet in b.fleets] for b in found]
    assert days == [[0, 1, 1], [61], [122, 123, 130], [140]]
    assert all(b.origin == b.fleets[0].as_of - timedelta(days=60) for b in found)
    assert list(blocks([], setting)) == []
