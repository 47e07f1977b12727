"""Tests that malformed rows of any kind neither stop a run nor affect another agent.

The columns of the four sources have the widest types that can be read. In each malformed row, one, some or all columns
have values that no lens would write. The run must succeed, and fct_data_quality must count the same malformed values as
the reference implementation. The published rows of all other agents must be identical to those without malformed rows.
"""

from __future__ import annotations

import os
import random
import re
import uuid
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.database.source_schema import SOURCE_TABLES
from ciris_scoring.lab import embedded
from conftest import Database
from nasty_fleet import START, Row, nasty_fleet
from pipeline import load_rows, score, wrong_counts

AS_OF = START + timedelta(days=12)
MALFORMED, MALFORMED_MARTS = "malformed", "ciris_malformed"
"""Schema of the sources with malformed rows, and schema of the marts computed from them."""
N_TRACES, N_OTHERS = int(os.environ.get("MALFORMED_TRACES", "1000")), 300
"""Numbers of malformed rows in a run: traces (10,000 in make soak) and rows of each other table."""

# --- malformed values by type ----------------------------------------------------------------------------------------

WHITE_SPACE = "".join(c for c in map(chr, range(0x10FFFF)) if c.isspace())
LONGEST_ID = 512
TEXTS = [
    *("", " ", WHITE_SPACE, *WHITE_SPACE, "x" + WHITE_SPACE, "\u200b", "\ufeff", "\\u0000", "\\x00", "\\"),
    *(letter * n for letter in ("a", "é", "z", " ", "\u3000") for n in (LONGEST_ID, LONGEST_ID + 1, 34_000)),
    *("-", "|", "'; drop table x; --", "%s", "{{ 1 }}", "null", "NaN", "\x01", "\U0010ffff", "ﷺ", "ß"),
]
ACTIONS = ["HandlerActionType.", "handleractiontype.\u00a0", "HandlerActionType.SPEAK", "HANDLERACTIONTYPE.ß"]
FLOATS = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "0", "-0", "0.3", "1", "1.5"]
NUMERICS = [
    *("NaN", "Infinity", "-Infinity", "1e131071", "-1e131071", "1e-16383", "7.000", "0.5", "-0.5", "-0.01"),
    *("1.01", "1." + "0" * 16_000, "1." + "0" * 16_000 + "1", "0.1" + "9" * 100),
    *(str(n) for n in (-(2**63) - 1, -(2**63), -(2**63) + 1, -1, 0, 1, 2**31, 2**63 - 2, 2**63 - 1, 2**63)),
]
FIRST_ACCEPTED = datetime.fromisoformat("2020-01-01T00:00:00Z")
TIMES = [
    (edge + timedelta(microseconds=n)).isoformat()
    for edge in (START, AS_OF, START + timedelta(days=5), FIRST_ACCEPTED)
    for n in (-1, 0, 1)
    if edge > START or n >= 0
]
TIMES += ["infinity", "-infinity", "294276-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"]
TIMES += ["4713-11-24 00:00:00+00 BC", "0001-12-31 23:59:59.999999+00 BC", "0001-01-03 00:00:00+00"]
TIMES += ["1970-01-01 00:00:00+00", "2026-03-08 16:30:00 America/New_York"]

JSON_VALUES = [
    *("0", "-0", "0.5", "1e131071", "-1e131071", "1e-16383", "9" * 400, "1" * 131_072, str(2**63)),
    *('""', '"\\\\u0000"', '"\\ud83d\\ude00"', '"\\u2028"', '"true"', '"0.5"', '"' + "z" * 100_000 + '"'),
    *("null", "true", "false", "{}", "[]", "[null]", "[" * 400 + "]" * 400, '{"a":' * 400 + "1" + "}" * 400),
    *('{"": {"": null}}', '{"a": 1, "a": 2}', "[" + "0," * 20_000 + "0]"),
]
POOLS = {"timestamptz": TIMES, "numeric": NUMERICS, "double precision": FLOATS, "text": TEXTS}
POOLS["boolean"] = ["true", "false"]
JSON_KEYS = {
    "deployment_profile": ["run_kind", "deployment_type", "trace_format_version"],
    "thought_start": ["round"],
    "dma_results": ["csdma", "dsdma", "csdma_plausibility_score", "dsdma_domain_alignment"],
    "conscience_result": [
        *("entropy_passed", "entropy_score", "entropy_threshold", "coherence_passed", "coherence_score"),
        *("coherence_threshold", "optimization_veto_passed", "conscience_passed", "entropy_level"),
        *("thought_depth_triggered", "updated_status_detected", "action_was_overridden"),
    ],
    "action_result": ["execution_success", "success", "audit_sequence_number", "audit_entry_hash"],
}


def malformed_value(rng: random.Random, column: str, kind: str) -> str:
    """Return a value that a column of the given type can store, in the format of COPY."""
    if kind != "jsonb":
        return rng.choice(POOLS[kind] + (ACTIONS if column == "selected_action" else []))
    keys = JSON_KEYS.get(column, ["a"])
    pairs = ",".join(f'"{key}":{rng.choice(JSON_VALUES)}' for key in rng.sample(keys, min(4, len(keys))))
    nested = f'{{"csdma":{{{pairs}}},"dsdma":{{{pairs}}}}}'
    return rng.choice((rng.choice(JSON_VALUES), f"{{{pairs}}}", nested))


def normal_time(rng: random.Random) -> str:
    """Return a time in an hour in which no other agent has a trace, so that its row cannot corroborate another agent.

    The microseconds are random, so that no two rows of an agent have the same time. The reference implementation does
    not define the order of such rows.
    """
    hours = timedelta(days=rng.randrange(12), hours=rng.choice((0, 20, 23)))
    return (START + hours + timedelta(microseconds=rng.randrange(3_600_000_000))).isoformat()


def normal_row(rng: random.Random) -> Row:
    """Return normal values of the columns of all tables. The agents are not those of the fleet."""
    scores = ("csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_level")
    flags = ("signature_verified", "coherence_passed", "idma_fragility_flag")
    agent = f"odd-{rng.randrange(6)}"
    return {
        **{column: normal_time(rng) for column in ("timestamp", "batch_timestamp", "created_at")},
        **{column: rng.choice(("0.25", "0.5", "0.75")) for column in scores},
        **{column: rng.choice(("true", "false")) for column in flags},
        **{column: f"{uuid.UUID(int=rng.getrandbits(128))}" for column in ("deferral_id", "batch_id")},
        "agent_id_hash": agent,
        "agent_id": agent,
        "agent_name": "Odd",
        "trace_id": f"trace {rng.randrange(10**6)}",
        "signature": "sig",
        "signature_key_id": rng.choice(("odd key", "odd key 2")),
        "audit_entry_hash": "hash",
        "audit_sequence_number": f"{rng.randrange(500)}",
        "thought_start": "{}",
        "status": rng.choice(("RESOLVED", "REJECTED")),
        "key_id": f"odd key {rng.randrange(10**6)}",
        "traces_received": f"{rng.randrange(10)}",
    }


def malformed_row(rng: random.Random, table: str) -> list[str | None]:
    """Return the values of a normal row in which one, some or all columns are malformed or missing."""
    columns = list(TYPES[table])
    chosen = rng.sample(columns, rng.choice((1, rng.randint(1, len(columns)), len(columns))))
    row: Row = dict.fromkeys(columns) | normal_row(rng)
    required = SOURCE_TABLES[table].key + ("agent_id_hash", "agent_id", "timestamp")
    for column in chosen:
        is_missing = column not in required and rng.random() < 0.1
        row[column] = None if is_missing else malformed_value(rng, column, TYPES[table][column])
    return [row[column] for column in columns]


# --- sources ---------------------------------------------------------------------------------------------------------


def widest(kind: str) -> str:
    """Return the widest type that can be read in place of a type of production."""
    kind = re.sub(r"\(.*\)| not null", "", kind)
    wider = {"uuid": "text", "varchar": "text", "bigint": "numeric", "integer": "numeric"}
    return wider.get(kind, kind)


TYPES = {name: {column: widest(kind) for column, kind in table.columns} for name, table in SOURCE_TABLES.items()}
TYPES["covenant_traces"] |= {
    "idma_k_eff": "double precision",
    "run_kind": "text",
    "deployment_type": "text",
    "model": "text",
    "deployment_profile": "jsonb",
    "trace_format_version": "text",
}
"""Types of the sources with malformed rows, by table and column."""


def load_malformed_rows(connection: psycopg.Connection) -> None:
    """Create the sources in schema MALFORMED, with the rows of the fleet and malformed rows."""
    rng = random.Random(20260611)
    connection.execute(f"create schema {MALFORMED}")
    for table, types in TYPES.items():
        definitions = ", ".join(f'"{column}" {kind}' for column, kind in types.items())
        names = ", ".join(f'"{column}"' for column in types)
        values = ", ".join(f'"{column}"::text::{kind}' for column, kind in types.items())
        connection.execute(
            f"create table {MALFORMED}.{table} ({definitions});"
            f"insert into {MALFORMED}.{table} ({names}) select {values} from cirislens.{table}"
        )
        with connection.cursor().copy(f"copy {MALFORMED}.{table} ({names}) from stdin") as copy:
            for _ in range(N_TRACES if table == "covenant_traces" else N_OTHERS):
                copy.write_row(malformed_row(rng, table))


# Columns that do not depend on other agents, unlike confidence bounds, steady scores and verdicts.
COMPARED = {
    "fct_capacity_scores": "as_of, window_days, capacity_score, category, score_status, n_traces",
    "fct_factor_components": "as_of, window_days, component, component_value",
    "fct_trace_checks": "to_jsonb(mart) - 'scored_at'",
    "fct_data_quality": "to_jsonb(mart)",
}


def others(connection: psycopg.Connection, schema: str) -> dict[str, list[str]]:
    """Return the published rows of agents without malformed rows, by mart."""
    published = {}
    for mart, columns in COMPARED.items():
        query = f"select agent_id_hash, {columns} from {schema}.{mart} as mart join public.agents using (agent_id_hash)"
        published[mart] = sorted(map(repr, connection.execute(query)))
        assert published[mart]
    return published


def refused_counts(connection: psycopg.Connection) -> dict[str, int]:
    """Return by issue how many counts of batches before the as-of are negative, fractional or too large."""
    columns = ("traces_received", "traces_accepted", "traces_rejected")
    rows = connection.execute(
        f"select {', '.join(columns)} from {MALFORMED}.covenant_trace_batches"
        " where batch_timestamp is null or not isfinite(batch_timestamp) or batch_timestamp < %s",
        [AS_OF],
    ).fetchall()
    refused = Counter(
        f"out_of_range_{column}"
        for row in rows
        for column, n in zip(columns, row, strict=True)
        if n is not None and not (Decimal(n).is_finite() and 0 <= n < 2**31 and n == int(n))
    )
    assert refused
    return dict(refused)


@pytest.mark.slow
def test_malformed_rows_affect_no_other_agent(database: Database, tmp_path: Path) -> None:
    fleet = nasty_fleet(7, days=12)
    # No agent of the fleet has traces in the hours of malformed traces.
    fleet["covenant_traces"] = [row for row in fleet["covenant_traces"] if 1 <= row["timestamp"].hour < 20]
    with database.connect() as connection:
        load_rows(connection, fleet)
        connection.execute(
            "create table public.agents as select distinct agent_id_hash from cirislens.covenant_traces"
            " where agent_id_hash <> ' '"
        )
        load_malformed_rows(connection)
    score(database.profiles_dir, AS_OF)
    embedded.write_profile(tmp_path, database.server, database=database.name, schema=MALFORMED_MARTS)
    score(tmp_path, AS_OF, {"ciris_source_schema": MALFORMED})
    with database.connect() as connection:
        found = others(connection, MALFORMED_MARTS)
        for mart, rows in others(connection, "ciris").items():
            assert found[mart] == rows, mart
        assert wrong_counts(connection, MALFORMED_MARTS, AS_OF, MALFORMED) == []
        batches = connection.execute(
            f"select issue, sum(n)::integer from {MALFORMED_MARTS}.fct_data_quality"
            " where issue like '%traces\\_%' group by 1"
        )
        assert dict(batches) == refused_counts(connection)
