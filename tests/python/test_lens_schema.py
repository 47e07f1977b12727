"""Tests with the names in the database of a lens (CIRISAI/CIRISLens, sql/010 to 027), scored by a role with exactly the
rights of docs/installing.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import yaml

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from command_line import at, invoke, refused
from conftest import Database
from pipeline import relation_differences, score
from test_bad_input import dbt

ROLE = "scorer"
RENAMED = ("covenant_traces", "covenant_public_keys", "covenant_trace_batches")


def rename_as_in_the_lens(connection: psycopg.Connection) -> None:
    """Rename the tables as migration 022 of the lens does. The older names are views, without later columns."""
    # The lens stores a text even if an agent did not sign.
    connection.execute(
        "update cirislens.covenant_traces"
        " set signature = coalesce(signature, ''), signature_key_id = coalesce(signature_key_id, '');"
        "alter table cirislens.covenant_traces rename signature_key_id to signer_key_id"
    )
    for table in RENAMED:
        newer = table.replace("covenant", "accord")
        connection.execute(
            f"alter table cirislens.{table} rename to {newer};"
            f"create view cirislens.{table} as select * from cirislens.{newer}"
        )
    connection.execute("alter table cirislens.accord_traces add memory_count integer")


@pytest.fixture(scope="module")
def lens(sample_copy: Database) -> Iterator[Database]:
    """The rows of the scored sample in the tables of a lens. The profile is that of a role with the rights of
    docs/installing.md, which scores into another schema.
    """
    database = sample_copy
    with database.connect() as connection:
        rename_as_in_the_lens(connection)
        connection.execute(
            f"create role {ROLE} login;"
            f"grant connect, create, temporary on database {database.name} to {ROLE};"
            f"grant usage on schema cirislens to {ROLE};"
            f"grant select on all tables in schema cirislens to {ROLE}"
        )
    embedded.write_profile(database.profiles_dir, database.server, database=database.name, schema="of_lens")
    path = database.profiles_dir / "profiles.yml"
    profile = yaml.safe_load(path.read_text())
    profile["ciris_scoring"]["outputs"]["dev"]["user"] = ROLE
    path.write_text(yaml.safe_dump(profile))
    try:
        yield database
    finally:
        with database.connect() as connection:
            connection.execute(f"drop owned by {ROLE}; drop role {ROLE}")


def test_lens_database_is_scored_without_changes(lens: Database) -> None:
    """The older names are views with signer_key_id."""
    score(lens.profiles_dir, SAMPLE["as_of"])
    with lens.connect() as connection:
        columns = connection.execute(
            "select column_name, data_type from information_schema.columns"
            f" where table_schema = '{SCHEMA}' and table_name = 'fct_capacity_scores'"
        )
        compared = {"fct_capacity_scores": dict(columns.fetchall())}
        assert relation_differences(connection, SCHEMA, "of_lens", compared) == []


def test_signature_key_id_is_read_where_a_table_has_both_columns(lens: Database) -> None:
    with lens.connect() as connection:
        connection.execute(
            "alter table cirislens.accord_traces add signature_key_id varchar(64);"
            "update cirislens.accord_traces set signature_key_id = signer_key_id, signer_key_id = 'other'"
        )
        newer = {f"ciris_{table}_table": table.replace("covenant", "accord") for table in RENAMED}
        outcome = dbt(lens, "run", "--select", "stg_cirislens__covenant_traces", variables=newer)
        assert outcome.succeeded, outcome.said
        staged = "of_lens_staging.stg_cirislens__covenant_traces"
        query = f"select count(*), bool_or(signature_key_id = 'other') from {staged}"
        n, is_other = connection.execute(query).fetchone()
        assert n > 0 and not is_other


def test_missing_older_table_names_are_refused_with_the_variables(lens: Database) -> None:
    with lens.connect() as connection:
        for table in RENAMED:
            connection.execute(f"drop view cirislens.{table} cascade")
    error, _ = refused(invoke("run", *at(lens)))
    assert (
        "--vars '{ciris_covenant_traces_table: accord_traces, ciris_covenant_public_keys_table: "
        "accord_public_keys, ciris_covenant_trace_batches_table: accord_trace_batches}'" in error
    )
