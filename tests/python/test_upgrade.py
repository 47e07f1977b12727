"""Test of an upgrade: the present code continues from the tables of a released version."""

from __future__ import annotations

import lzma
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from conftest import Database, copy_of
from dump_for_upgrade import AS_OF, FOLDER, TARGET
from pipeline import relation_differences, score

FINAL = AS_OF - timedelta(days=3)
"""Newest as-of with final scores, which the incremental run keeps."""


@pytest.fixture(scope="module", params=sorted(FOLDER.glob("*.sql.xz")), ids=lambda dump: dump.name)
def upgraded(
    request: pytest.FixtureRequest, scored_sample: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """The sample, scored by the present code in one schema, and by a released version in another."""
    with copy_of(scored_sample, tmp_path_factory.mktemp("upgraded")) as database:
        psql = [database.server.programs / "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1"]
        statements = lzma.decompress(request.param.read_bytes())
        subprocess.run([*psql, database.conninfo], input=statements, stdout=subprocess.DEVNULL, check=True)
        yield database


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
    """Final rows must equal those of the released version, and recent rows must equal those of a run from scratch."""
    embedded.write_profile(tmp_path, upgraded.server, database=upgraded.name, schema=TARGET)
    with upgraded.connect() as connection:
        marts = connection.execute(
            "select table_name from information_schema.columns where table_schema = %s and column_name = 'as_of'"
            " and table_name <> 'fct_scoring_runs'",
            [TARGET],
        ).fetchall()

        def divide(schema: str, final: str, recent: str) -> None:
            """Copy the rows of the marts up to FINAL into one new schema, and all later rows into another."""
            for name, condition in ((final, "<="), (recent, ">")):
                connection.execute(f"create schema {name}")
                for (mart,) in marts:
                    connection.execute(
                        f"create table {name}.{mart} as select * from {schema}.{mart} where as_of {condition} '{FINAL}'"
                    )

        divide(TARGET, "final_before", "recent_before")
        score(tmp_path, SAMPLE["as_of"])
        divide(TARGET, "final", "recent")
        divide(SCHEMA, "final_fresh", "recent_fresh")
        for schema in ("final", "recent"):
            scores = connection.execute(f"select count(*) from {schema}.fct_capacity_scores")
            assert scores.fetchone() > (100,)
        assert relation_differences(connection, "final_before", "final") == [], "a final row has changed"
        different = relation_differences(connection, "recent_fresh", "recent")
        assert different == [], "a recent row differs from that of a run from scratch"
