"""Tests of sources with other column types than production's: types that can be read give the same marts."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from dbt.cli.main import dbtRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from ciris_scoring.basics.source_schema import BATCH_COLUMNS, SOURCE_TABLES
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import at
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import insert_rows, kept_parsed, load_rows, score, table_differences

# Types by table and column that replace production's. They include each kind that a data_type of the sources permits.
TYPES = """
    create type {0}.phase as enum ('chaos', 'rigidity', 'unknown', '', '\u00a0');
    create domain {0}.label as varchar(300);
    create domain {0}.short_label as {0}.label;
    create domain {0}.flag as boolean;
    create domain {0}.moment as timestamptz;
    create domain {0}.share as numeric;
    create domain {0}.number as bigint;
    create domain {0}.document as jsonb;
"""
WIDE = {
    "covenant_traces": {
        **dict.fromkeys(("trace_id", "agent_id_hash", "agent_name", "selected_action"), "text"),
        "thought_id": "uuid",
        "audit_sequence_number": "numeric",
        "csdma_plausibility_score": "double precision",
        "coherence_level": "double precision",
        "dsdma_domain_alignment": "real",
        "entropy_level": "real",
        "idma_k_eff": "double precision",
        "timestamp": "timestamptz(6)",
        **dict.fromkeys(("thought_start", "dma_results", "conscience_result", "action_result"), "json"),
    },
    "wbd_deferrals": {"deferral_id": "text", "agent_id": "text"},
    "covenant_public_keys": {"key_id": "text"},
    "covenant_trace_batches": {
        "batch_id": "bigint",
        "traces_received": "numeric",
        "traces_accepted": "bigint",
        "traces_rejected": "smallint",
    },
}
STRANGE = {
    "covenant_traces": {
        "trace_id": "char(200)",
        "thought_id": "name",
        "agent_id_hash": "char(64)",
        "agent_name": "{0}.short_label",
        "selected_action": "{citext}",
        "idma_phase": "{0}.phase",
        "audit_sequence_number": "integer",
        "timestamp": "{0}.moment",
        "signature_verified": "{0}.flag",
        "csdma_plausibility_score": "{0}.share",
        "conscience_result": "{0}.document",
    },
    "wbd_deferrals": {"deferral_id": "char(36)", "agent_name": "char(40)", "status": "{citext}"},
    "covenant_public_keys": {"key_id": "char(64)", "revoked_at": "{0}.moment"},
    "covenant_trace_batches": {"batch_id": "text", "traces_received": "{0}.number"},
}


def copy_sources(
    connection: psycopg.Connection, schema: str, kind: str, types: dict[str, dict[str, str]]
) -> None:
    """Copy the source tables with other types, as tables or materialized views."""
    citext = connection.execute("select from pg_available_extensions where name = 'citext'").fetchone()
    if citext is not None:
        connection.execute("create extension if not exists citext")
    names = {"citext": "text" if citext is None else "citext"}
    connection.execute(f"create schema {schema}")
    connection.execute(TYPES.format(schema))
    for table, description in SOURCE_TABLES.items():
        columns = []
        for column in description.column_names:
            new = types[table].get(column)
            value = f'"{column}"'
            if column == "batch_id" and new == "bigint":
                value = f"hashtext({value}::text)"
            elif new is not None:
                value += "::text"
            columns.append(value if new is None else f'{value}::{new.format(schema, **names)} as "{column}"')
        connection.execute(
            f"create {kind} {schema}.{table} as select {', '.join(columns)} from cirislens.{table}"
        )


@pytest.fixture
def nasty_database(every_database: Database) -> Database:
    with every_database.connect() as connection:
        load_rows(connection, nasty_fleet(6, days=12))
        connection.execute(
            "update cirislens.covenant_traces set thought_id = md5(thought_id)::uuid where thought_id ~ '[a-z]'"
        )
        connection.execute("delete from cirislens.covenant_traces where thought_id !~ '[a-z]'")
        batch = dict.fromkeys(BATCH_COLUMNS) | {"batch_timestamp": START, "traces_received": 3}
        numbers = [f"00000000-0000-0000-0000-{n:012d}" for n in range(3)]
        insert_rows(connection, "covenant_trace_batches", [batch | {"batch_id": n} for n in numbers])
    return every_database


@pytest.mark.parametrize(
    ("every_postgres", "kind", "types"),
    [("embedded", "materialized view", STRANGE), ("system", "table", WIDE)],
    indirect=["every_postgres"],
)
def test_other_types_that_can_be_read_give_the_same_marts(
    nasty_database: Database, tmp_path: Path, kind: str, types: dict[str, dict[str, str]]
) -> None:
    as_of = START.replace(day=12)
    score(nasty_database.profiles_dir, as_of)
    with nasty_database.connect() as connection:
        copy_sources(connection, "others", kind, types)
    profiles_dir = tmp_path / "others"
    profiles_dir.mkdir()
    embedded.write_profile(
        profiles_dir, nasty_database.server, database=nasty_database.name, schema="ciris_others"
    )
    score(profiles_dir, as_of, {"ciris_source_schema": "others"})
    with nasty_database.connect() as connection:
        assert table_differences(connection, SCHEMA, "ciris_others") == []


def test_freshness_reads_other_types_and_infinite_times(database: Database) -> None:
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(1, days=3))
        for table, types in WIDE.items():
            for column, new in types.items():
                using = "0" if column == "batch_id" else f'"{column}"::text'
                if new != "uuid":
                    connection.execute(
                        f'alter table cirislens.{table} alter "{column}" type {new} using {using}::{new}'
                    )
        connection.execute("truncate cirislens.wbd_deferrals, cirislens.covenant_trace_batches")
        connection.execute(
            "insert into cirislens.wbd_deferrals (deferral_id, agent_id, created_at) values"
            " ('a', 'a', 'infinity'), ('b', 'b', '4713-12-01 BC'), ('c', 'c', '-infinity')"
        )
        connection.execute(
            "insert into cirislens.covenant_trace_batches (batch_id, batch_timestamp) values"
            " (1, 'infinity'), (2, '4713-12-01 BC')"
        )
    with kept_parsed(database.profiles_dir):
        outcome = dbtRunner().invoke(["source", "freshness", *at(database), "--quiet"])
    assert outcome.exception is None
    assert {r.node.name: r.message for r in outcome.result if "error" in r.status} == {}


# --- JSON that jsonb refuses -----------------------------------------------------------------------------------------

ESCAPES = [
    "\\\\",
    "\\n",
    '\\"',
    "\\u0000",
    "\\u0041",
    "\\ud83d",
    "\\uDE00",
    "\\uD83D\\uDe00",
    "u0000",
    "1e9999",
    "[",
    "é",
]
NUMBERS = ["0", "-0", "12", "1e5", "1E-16383", "1e-16384", "1.5e-16382", "1.5e-16383", "1e131071", "1e131072"]
NUMBERS += ["12e131071", "12e131070", "0.001e131074", "0.001e131075", "0e-16384", "0e200000", "0e9999999999"]
NUMBERS += [
    "1e+0000000000005",
    "1e-0000000000099999999999",
    "9" * 300,
    "1" * 131072,
    "1" * 131073,
    "-" + "1" * 131073,
]
NUMBERS += ["0." + "1" * 16383, "0." + "1" * 16384, "0." + "0" * 16384]
texts = st.lists(st.sampled_from(ESCAPES), max_size=5).map(lambda parts: '"' + "".join(parts) + '"')
documents = st.recursive(
    st.sampled_from([*NUMBERS, "true", "null", '""']) | texts,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")
        | st.dictionaries(texts, inner, max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        )
    ),
    max_leaves=6,
)
DEEP = ["[" * n + "1" + "]" * n for n in (4999, 5000, 5001, 12000)]
DEEP += ['{"a":' * n + "1" + "}" * n for n in (5000, 5001)] + [
    "[" + "[],{}," * 9000 + "1]",
    '"' + "[" * 9000 + '"',
]


def compiled_guard() -> sql.SQL:
    """Return the compiled SQL of is_readable_json for a column d."""
    import jinja2

    macro = (REPOSITORY / "macros/cleaning/readable_json.sql").read_text()
    template = jinja2.Environment().from_string(macro + "{{ is_readable_json('d::text') }}")
    return sql.SQL(template.render())


def test_is_readable_json_agrees_with_jsonb(embedded_postgres: Server, system_postgres: Server) -> None:
    """Compared with pg_input_is_valid of PostgreSQL 18. The macro gives the same result on both servers."""
    drawn: list[str] = [*NUMBERS]

    @settings(max_examples=600, derandomize=True, database=None, deadline=None)
    @given(documents)
    def draw(document: str) -> None:
        drawn.append(document)

    draw()
    with psycopg.connect(embedded_postgres.conninfo("postgres")) as newest:
        valid = newest.execute(
            "select array_agg(pg_input_is_valid(d, 'jsonb') order by n)"
            " from unnest(%s::text[]) with ordinality as t (d, n)",
            [drawn],
        ).fetchone()[0]
    assert 100 < sum(valid) < len(valid) - 100
    expected = dict(zip(drawn, valid, strict=True)) | dict(
        zip(DEEP, [True, True, False, False, True, False, True, True], strict=True)
    )
    for server in (embedded_postgres, system_postgres):
        with psycopg.connect(server.conninfo("postgres")) as connection:
            rows = connection.execute(
                sql.SQL("select d::text, {} from unnest(%s::json[]) as t (d)").format(compiled_guard()),
                [list(expected)],
            ).fetchall()
            assert {d[:100]: readable for d, readable in rows if readable != expected[d]} == {}
            readable = [d for d, is_readable in rows if is_readable]
            connection.execute("select d::jsonb from unnest(%s::json[]) as t (d)", [readable])
            assert len(json.dumps(readable)) > 1000
