"""Test of tables and columns that have older or newer names of a lens (CIRISAI/CIRISLens, sql/010 to 027)."""

from __future__ import annotations

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from command_line import command, refused, succeeded
from conftest import Database
from test_bad_input import dbt, marts

RENAMED = ("covenant_traces", "covenant_public_keys", "covenant_trace_batches")
NEWER = {table: table.replace("covenant", "accord") for table in RENAMED}


def staged(database: Database, **variables: str) -> dict[str, str]:
    """Build the staging views, and return the fingerprints of their rows."""
    models = [f"stg_cirislens__{table}" for table in RENAMED]
    variables |= {"ciris_as_of": SAMPLE["as_of"]}
    succeeded(dbt(database, "run", "--select", *models, variables=variables))
    return marts(database, schemas=[f"{SCHEMA}_staging"])


@pytest.mark.slow
def test_tables_of_a_lens_are_read_by_their_older_and_newer_names(sample_copy: Database) -> None:
    """Migration 022 of the lens renames tables and a column. Its views with older names lack columns added later."""
    expected = staged(sample_copy)
    with sample_copy.connect() as connection:
        connection.execute("alter table cirislens.covenant_traces rename signature_key_id to signer_key_id")
        for older, newer in NEWER.items():
            connection.execute(
                f"alter table cirislens.{older} rename to {newer};"
                f"create view cirislens.{older} as select * from cirislens.{newer}"
            )
        assert staged(sample_copy) == expected
        # If a table has signature_key_id and signer_key_id, signature_key_id is read.
        connection.execute(
            "alter table cirislens.accord_traces add memory_count integer, add signature_key_id varchar(64);"
            "update cirislens.accord_traces set signature_key_id = signer_key_id, signer_key_id = 'other'"
        )
        assert staged(sample_copy, **{f"ciris_{older}_table": newer for older, newer in NEWER.items()}) == expected
        for older in RENAMED:
            connection.execute(f"drop view cirislens.{older}")
    error, _ = refused(command(sample_copy, "run"))
    assert (
        "--vars '{ciris_covenant_traces_table: accord_traces, ciris_covenant_public_keys_table: "
        "accord_public_keys, ciris_covenant_trace_batches_table: accord_trace_batches}'" in error
    )
