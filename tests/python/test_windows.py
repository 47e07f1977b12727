"""Tests of the Python models int_windows and fct_score_certainty: chunks, blocks and the order of rows on disk do not
change results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.lab.embedded import write_profile
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
CERTAINTY = "select to_jsonb(c) from {} as c order by agent_id_hash, as_of, window_days"
"""Query of the certainty of all scores. A run that does not publish leaves its rows in a staging table."""


def computed(connection: psycopg.Connection, certainty: str) -> tuple[list, list]:
    """Return the rows of both models.

    :param certainty: table of the certainty.
    """
    query = sql.SQL(CERTAINTY).format(sql.SQL(certainty))
    return connection.execute(WINDOWS).fetchall(), connection.execute(query).fetchall()


PUBLISHED, STAGED = f'"{SCHEMA}".fct_score_certainty', "fct_score_certainty__next"


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
    """Build the sums and scores again. The only earlier run was a first run, so dbt computes all as-ofs again."""
    done = dbt(
        database,
        "run",
        "--select",
        "int_windows+,+fct_score_certainty",
        variables={"ciris_as_of": AS_OF.isoformat()},
    )
    assert done.succeeded, done.said


@pytest.mark.slow
@pytest.mark.parametrize(("chunk", "read", "block_periods"), [(200, 400, 4000), (150, 500, 3), (10**6, 1, 1)])
def test_chunks_and_blocks_do_not_change_results(database, connection, chunk, read, block_periods, monkeypatch):
    monkeypatch.setattr("ciris_scoring.windows.reading.CHUNK_AGENT_PERIODS", chunk)
    monkeypatch.setattr("ciris_scoring.windows.reading.READ_AGENT_PERIODS", read)
    monkeypatch.setattr("ciris_scoring.windows.reading.BLOCK_PERIODS", block_periods)
    before = computed(connection, PUBLISHED)
    computed_at = connection.execute(COMPUTED_AT).fetchall()
    rebuild(database)
    assert computed(connection, STAGED) == before
    assert connection.execute(COMPUTED_AT).fetchall() != computed_at


@pytest.mark.slow
def test_order_of_rows_on_disk_does_not_change_results(database, connection):
    before = computed(connection, PUBLISHED)
    for table in ("int_agent_events", "int_agent_periods", "int_deferral_values"):
        connection.execute(
            f"create temporary table {table}_kept as select * from {table}; truncate {table};"
            f"insert into {table} select * from {table}_kept order by md5({table}_kept::text)"
        )
    rebuild(database)
    assert computed(connection, STAGED) == before
