"""Tests of the Python model int_windows: chunks, blocks and the order of rows on disk do not change results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.lab.embedded import write_profile
from ciris_scoring.statistics.blocks import blocks
from command_line import succeeded
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows
from test_bad_input import dbt, run

DAYS = 10
AS_OF = START + timedelta(days=DAYS)
SCHEMA = "Scores of Ægir"  # needs quoting
WINDOWS = """
    select to_jsonb(w) - 'computed_at' from int_windows as w order by agent_id_hash, as_of, window_days
    """
COMPUTED_AT = "select max(computed_at) from int_windows"


@pytest.fixture(scope="module")
def database(module_database: Database) -> Database:
    """A scored random fleet. One agent has eight episodes at the same time, whose order follows only from the audit
    numbers of the traces.
    """
    database = module_database
    fleet = nasty_fleet(3, agents=5, days=DAYS)
    fleet["covenant_traces"] += [
        fleet["covenant_traces"][0]
        | {
            "trace_id": f"simultaneous {number}",
            "signature": f"simultaneous {number}",
            "audit_sequence_number": 10**6 + number,
            "idma_fragility_flag": number % 2 == 0,
            "idma_phase": "a" if number % 4 < 2 else "b",
        }
        for number in range(16)
    ]
    write_profile(database.profiles_dir, database.server, database=database.name, schema=SCHEMA)
    with database.connect() as connection:
        load_rows(connection, fleet)
    succeeded(run(database, as_of=AS_OF.isoformat()))
    return database


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(f"{SCHEMA}_intermediate")))
        yield connection


def rebuild(database: Database) -> None:
    """Build only int_windows. The only earlier run was a first run, so dbt computes all as-ofs again."""
    done = dbt(database, "run", "--select", "int_windows", variables={"ciris_as_of": AS_OF.isoformat()})
    assert done.succeeded, done.said


@pytest.mark.parametrize(
    ("chunk_agents", "read_agents", "block_periods"), [(1, 2, 4000), (2, 3, 3), (100, 1, 1)]
)
def test_chunks_and_blocks_do_not_change_results(
    database, connection, chunk_agents, read_agents, block_periods, monkeypatch
):
    module = "ciris_scoring.statistics.one_pass"
    monkeypatch.setattr("ciris_scoring.statistics.intervals.CHUNK_ROWS", 3)
    monkeypatch.setattr(f"{module}.agents_per_chunk", lambda n_periods: chunk_agents)
    monkeypatch.setattr(f"{module}.agents_per_read", lambda n_periods: read_agents)
    monkeypatch.setattr(f"{module}.blocks", partial(blocks, block_periods=block_periods))
    before = connection.execute(WINDOWS).fetchall()
    computed_at = connection.execute(COMPUTED_AT).fetchall()
    rebuild(database)
    assert connection.execute(WINDOWS).fetchall() == before
    assert connection.execute(COMPUTED_AT).fetchall() != computed_at


def test_order_of_rows_on_disk_does_not_change_results(database, connection):
    before = connection.execute(WINDOWS).fetchall()
    for table in ("int_agent_events", "int_agent_periods", "int_deferral_verdicts"):
        connection.execute(
            f"create temporary table {table}_kept as select * from {table}; truncate {table};"
            f"insert into {table} select * from {table}_kept order by md5({table}_kept::text)"
        )
    rebuild(database)
    assert connection.execute(WINDOWS).fetchall() == before
