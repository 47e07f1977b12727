"""Tests with the database of a lens as its published migrations create it (CIRISAI/CIRISLens, sql/010 to 027), scored
by a role with exactly the rights of docs/installing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from ciris_scoring.basics.source_schema import SOURCE_TABLES
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from command_line import at, invoke, refused
from conftest import Database
from pipeline import relation_differences, score

ROLE = "scorer"
RENAMED = ("covenant_traces", "covenant_public_keys", "covenant_trace_batches")
# Types, defaults and keys of the lens's columns that are read, and some others.
TABLES = """
    create table cirislens.wbd_deferrals (
        deferral_id uuid primary key default gen_random_uuid(),
        agent_id varchar(255) not null,
        agent_name varchar(255),
        status varchar(50) default 'PENDING',
        resolution_summary text,
        resolved_at timestamptz,
        created_at timestamptz default current_timestamp
    );
    create table cirislens.covenant_public_keys (
        key_id varchar(64) primary key,
        public_key_base64 varchar(128) not null,
        algorithm varchar(20) default 'Ed25519' check (algorithm in ('Ed25519')),
        created_at timestamptz default current_timestamp,
        expires_at timestamptz,
        revoked_at timestamptz
    );
    create table cirislens.covenant_traces (
        id bigserial,
        trace_id varchar(128) not null,
        thought_id varchar(128),
        agent_id_hash varchar(64) not null,
        agent_name varchar(255),
        thought_start jsonb,
        dma_results jsonb,
        conscience_result jsonb,
        action_result jsonb,
        csdma_plausibility_score numeric(3, 2),
        dsdma_domain_alignment numeric(3, 2),
        conscience_passed boolean,
        action_was_overridden boolean,
        entropy_level numeric(5, 4),
        coherence_level numeric(5, 4),
        coherence_passed boolean,
        selected_action varchar(50),
        action_success boolean,
        audit_sequence_number bigint,
        audit_entry_hash varchar(64),
        signature text not null,
        signer_key_id varchar(64) not null,
        signature_verified boolean default false,
        "timestamp" timestamptz not null,
        idma_k_eff numeric(5, 2),
        idma_fragility_flag boolean,
        idma_phase varchar(20),
        trace_level varchar(20) default 'generic',
        primary key (trace_id, "timestamp")
    );
    create table cirislens.covenant_trace_batches (
        batch_id uuid primary key default gen_random_uuid(),
        batch_timestamp timestamptz not null,
        consent_timestamp timestamptz not null,
        traces_received integer not null,
        traces_accepted integer not null,
        traces_rejected integer not null,
        rejection_reasons jsonb,
        trace_level varchar(20) default 'generic'
    );
"""


def build_lens(connection: psycopg.Connection) -> None:
    """Create the lens's tables with the rows of the sample, renamed as in migration 022, and apply the later
    migrations."""
    connection.execute("alter schema cirislens rename to sample; create schema cirislens")
    connection.execute(TABLES)
    for table, description in SOURCE_TABLES.items():
        columns = {name: f'"{name}"' for name in description.column_names}
        if table == "covenant_traces":
            del columns["signature_key_id"]
            # The lens stores a text even if an agent did not sign.
            columns |= {
                "signature": "coalesce(signature, '')",
                "signer_key_id": "coalesce(signature_key_id, '')",
            }
            columns["idma_k_eff"] = "nullif(idma_k_eff, 'infinity')"  # its type cannot store infinity
        if "algorithm" in columns:
            columns["algorithm"] = "'Ed25519'"  # the only spelling that the lens allows
        written = ", ".join(f'"{name}"' for name in columns)
        read = ", ".join(columns.values())
        connection.execute(f"insert into cirislens.{table} ({written}) select {read} from sample.{table}")
    for table in RENAMED:
        newer = table.replace("covenant", "accord")
        connection.execute(
            f"alter table cirislens.{table} rename to {newer};"
            f"create view cirislens.{table} as select * from cirislens.{newer}"
        )
    # Columns of accord_traces that the older view does not have.
    connection.execute(
        "alter table cirislens.accord_traces add thought_start_at timestamptz, add memory_count integer"
    )


@pytest.fixture(scope="module")
def lens(sample_copy: Database) -> Iterator[Database]:
    """The rows of the scored sample in the tables of a lens. The profile is that of a role with the rights of
    docs/installing.md, which scores into another schema.
    """
    database = sample_copy
    with database.connect() as connection:
        build_lens(connection)
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


def scores(database: Database, schema: str) -> list[str]:
    with database.connect() as connection:
        columns = dict(
            connection.execute(
                "select column_name, data_type from information_schema.columns"
                f" where table_schema = '{SCHEMA}' and table_name = 'fct_capacity_scores'"
            ).fetchall()
        )
        return relation_differences(connection, SCHEMA, schema, {"fct_capacity_scores": columns})


def test_lens_database_is_scored_without_changes(lens: Database, tmp_path: Path) -> None:
    """First under the older names, which are views with signer_key_id; then with both columns in the newer table."""
    score(lens.profiles_dir, SAMPLE["as_of"])
    assert scores(lens, "of_lens") == []
    with lens.connect() as connection:
        connection.execute(
            "alter table cirislens.accord_traces add signature_key_id varchar(64);"
            "update cirislens.accord_traces set signature_key_id = signer_key_id, signer_key_id = 'other'"
        )
    newer = {f"ciris_{table}_table": table.replace("covenant", "accord") for table in RENAMED}
    score(lens.profiles_dir, SAMPLE["as_of"], newer, full_refresh=True, allow_rescoring=True)
    assert scores(lens, "of_lens") == []


def test_missing_older_table_names_are_refused_with_the_variables(lens: Database) -> None:
    with lens.connect() as connection:
        for table in RENAMED:
            connection.execute(f"drop view cirislens.{table}")
    error, _ = refused(invoke("run", *at(lens)))
    assert (
        "--vars '{ciris_covenant_traces_table: accord_traces, ciris_covenant_public_keys_table: "
        "accord_public_keys, ciris_covenant_trace_batches_table: accord_trace_batches}'" in error
    )
