"""Tests that a database with another encoding than UTF8 is refused before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab.embedded import Server, write_profile
from conftest import Database
from test_bad_input import dbt, refusal, run

# Plain dbt creates the run log to record the refusal.
N_TABLES = "select count(*) from pg_tables where schemaname like 'ciris%' and tablename <> 'int_runs'"


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def other_encoding(
    embedded_postgres: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Database, str]]:
    """A database with another encoding and empty source tables."""
    name = f"test_{request.param.lower()}"
    write_profile(tmp_path, embedded_postgres, database=name)
    database = Database(embedded_postgres, name, tmp_path)
    with psycopg.connect(embedded_postgres.conninfo("postgres"), autocommit=True) as administration:
        administration.execute(
            f"create database {name} template template0 encoding '{request.param}' locale 'C'"
        )
        with database.connect() as connection:
            create_source_tables(connection)
        yield database, request.param
        administration.execute(f"drop database {name} with (force)")


@pytest.mark.parametrize("command", ["run", "dbt"])
def test_encoding_other_than_utf8_is_refused(other_encoding: tuple[Database, str], command: str) -> None:
    database, encoding = other_encoding
    if command == "run":
        said = refusal(run(database), 1)
    else:
        outcome = dbt(database, "build", variables={"ciris_as_of": "2026-06-15"})
        assert not outcome.succeeded
        said = outcome.said
    for part in (database.name, f"has the encoding {encoding}", "must be UTF8", "encoding 'UTF8'", "pg_dump"):
        assert part in said
    with database.connect() as connection:
        assert connection.execute(N_TABLES).fetchone() == (4,), "only the sources"
