"""Test of an upgrade: the present code continues from the tables of a released version."""

from __future__ import annotations

import lzma
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from conftest import Database, copy_of
from dump_for_upgrade import AS_OF, FOLDER, TARGET
from pipeline import mart_differences, score

FINAL = AS_OF - timedelta(days=3)
"""The increment keeps the scores up to this as-of."""


@pytest.fixture(params=sorted(FOLDER.glob("*.sql.xz")), ids=lambda dump: dump.name.removesuffix(".sql.xz"))
def upgraded(request: pytest.FixtureRequest, scored_sample: Database, tmp_path: Path) -> Iterator[Database]:
    """The sample, scored by the present code in one schema, and by a released version in another."""
    with copy_of(scored_sample, tmp_path) as database:
        psql = [database.server.programs / "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1"]
        statements = lzma.decompress(request.param.read_bytes())
        subprocess.run(
            [*psql, database.server.conninfo(database.name)],
            input=statements,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        yield database


def rows_of(
    connection: psycopg.Connection, schema: str, name: str, condition: str, *, kept: bool = False
) -> None:
    """Create a schema with the rows of the marts in which a condition on the as-of holds.

    :param kept: copy the rows, instead of the later rows of the marts.
    """
    connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
    marts = connection.execute(
        "select table_name from information_schema.columns where table_schema = %s and column_name = 'as_of'"
        " and table_name <> 'fct_scoring_runs'",
        [schema],
    ).fetchall()
    for [mart] in marts:
        connection.execute(
            sql.SQL("create {kind} {goal} as select * from {source} where as_of {condition} {final}").format(
                kind=sql.SQL("table" if kept else "view"),
                goal=sql.Identifier(name, mart),
                source=sql.Identifier(schema, mart),
                condition=sql.SQL(condition),
                final=sql.Literal(FINAL),
            )
        )


def columns(connection: psycopg.Connection, schema: str) -> dict[str, list[str]]:
    """Return the columns of each mart with their types, in order."""
    return dict(
        connection.execute(
            "select table_name, array_agg(concat(column_name, ' ', udt_name) order by ordinal_position)"
            " from information_schema.columns where table_schema = %s group by table_name",
            [schema],
        ).fetchall()
    )


def test_no_column_of_a_released_mart_is_gone_or_has_moved(upgraded: Database) -> None:
    with upgraded.connect() as connection:
        released, present = columns(connection, TARGET), columns(connection, SCHEMA)
    assert {mart: present.get(mart, [])[: len(names)] for mart, names in released.items()} == released


def test_an_increment_continues_from_a_released_version(upgraded: Database, tmp_path: Path) -> None:
    folder = tmp_path / "upgraded"
    folder.mkdir()
    embedded.write_profile(folder, upgraded.server, database=upgraded.name, schema=TARGET)
    with upgraded.connect() as connection:
        rows_of(connection, TARGET, "before", "<=", kept=True)
    score(folder, SAMPLE["as_of"])
    with upgraded.connect() as connection:
        rows_of(connection, TARGET, "final", "<=")
        rows_of(connection, TARGET, "recent", ">")
        rows_of(connection, SCHEMA, "fresh", ">")
        for schema in ("final", "recent"):
            assert connection.execute(
                f"select count(*) > 100 from {schema}.fct_capacity_scores"
            ).fetchone() == (True,)
        assert mart_differences(connection, "before", "final") == [], "a final row has changed"
        assert mart_differences(connection, "fresh", "recent") == [], (
            "a recent row is not that of a fresh history"
        )
