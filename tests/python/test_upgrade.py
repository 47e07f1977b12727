"""Test of an upgrade: the present code meets the tables of an earlier state of the project."""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path

import pytest

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from command_line import command, refused, succeeded
from conftest import Database, copy_of
from dump_for_upgrade import FOLDER, TARGET
from pipeline import relation_differences

REMEDY = "Score everything again: ciris-scoring run --full-refresh --allow-rescoring"


@pytest.mark.parametrize("dump", sorted(FOLDER.glob("*.sql.xz")), ids=lambda dump: dump.name)
def test_tables_of_an_earlier_state_are_built_again(scored_sample: Database, tmp_path: Path, dump: Path) -> None:
    """A run names the remedy and changes nothing. The remedy changes nothing while a view reads a column that it
    drops. Then it leaves the marts that a run from scratch writes, with the same columns.
    """
    with copy_of(scored_sample, tmp_path) as database:
        psql = [database.server.programs / "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1"]
        statements = lzma.decompress(dump.read_bytes())
        subprocess.run([*psql, database.conninfo], input=statements, stdout=subprocess.DEVNULL, check=True)
        embedded.write_profile(database.profiles_dir, database.server, database=database.name, schema=TARGET)
        run = (database, "run", "--as-of", SAMPLE["as_of"])
        with database.connect() as connection:
            # A state of 1.0.0 before its release. Its views would be in the place of tables.
            connection.execute(f"update {TARGET}_intermediate.int_runs set version = '0.9.0'")
            connection.execute(f"drop schema {TARGET}_staging cascade")
            connection.execute(f"drop view if exists {TARGET}.fct_deferral_verdicts")
            connection.execute(f"drop view if exists {TARGET}_intermediate.int_sustained_coherence")
            scores = f"select count(*), max(as_of) from {TARGET}.fct_capacity_scores"
            before = connection.execute(scores).fetchone()
            assert REMEDY in refused(command(*run))[0]
            for reader in (["fleet"], ["explain", "Link"]):
                said = refused(command(database, *reader))[0]
                assert "Another version of the project built the marts" in said, said
                assert "there is no fct_score_certainty" in said, said
            assert connection.execute(scores).fetchone() == before and before is not None and before[0] > 100
            connection.execute(
                f"""
                create view {TARGET}.bounds_of_others as select capacity_score_low from {TARGET}.fct_capacity_scores;
                create function {TARGET}.lowest_of_others() returns float8 stable
                begin atomic
                    select min(capacity_score_low) from {TARGET}.fct_capacity_scores;
                end
                """
            )
            connection.commit()
            said = refused(command(*run, "--full-refresh", "--allow-rescoring"))[0]
            for reader in (f"view {TARGET}.bounds_of_others", f"function {TARGET}.lowest_of_others()"):
                assert f"{reader} depends on" in said, said
            assert connection.execute(scores).fetchone() == before
            connection.execute(f"drop view {TARGET}.bounds_of_others; drop function {TARGET}.lowest_of_others()")
            connection.commit()
            succeeded(command(*run, "--full-refresh", "--allow-rescoring"))
            marts = connection.execute(
                "select table_name, array_agg(concat(column_name, ' ', udt_name) order by column_name)"
                " from information_schema.columns where table_schema = %s group by table_name",
                [SCHEMA],
            ).fetchall()
            for mart, columns in marts:
                found = connection.execute(
                    "select array_agg(concat(column_name, ' ', udt_name) order by column_name)"
                    " from information_schema.columns where table_schema = %s and table_name = %s",
                    [TARGET, mart],
                ).fetchone()
                assert found == (columns,), mart
            names = {mart for mart, _ in marts} - {"fct_scoring_runs"}
            assert relation_differences(connection, SCHEMA, TARGET, names) == []
