"""Test that malformed rows of any kind do not stop a run. All marts must equal the reference implementation.

The columns of the four sources have the widest types that can be read. In each malformed row, one, some or all columns
have values that no lens would write.
"""

from __future__ import annotations

import os
import random
import re
import uuid
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

from ciris_scoring.database.source_schema import SOURCE_TABLES
from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from nasty_fleet import START, Row, nasty_fleet
from pipeline import differences_from_reference, load_rows, score

AS_OF = START + timedelta(days=12)
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
    return (START + timedelta(microseconds=rng.randrange(12 * 86_400_000_000))).isoformat()


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


def malformed_row(rng: random.Random, table: str) -> Row:
    """Return a normal row in which one, some or all columns are malformed or missing."""
    columns = list(TYPES[table])
    chosen = rng.sample(columns, rng.choice((1, rng.randint(1, len(columns)), len(columns))))
    row: Row = dict.fromkeys(columns) | normal_row(rng)
    required = SOURCE_TABLES[table].key + ("agent_id_hash", "agent_id", "timestamp")
    for column in chosen:
        is_missing = column not in required and rng.random() < 0.1
        row[column] = None if is_missing else malformed_value(rng, column, TYPES[table][column])
    return {column: row[column] for column in columns}


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
    """Give the source tables the widest types, and add malformed rows to those of the fleet."""
    rng = random.Random(20260611)
    connection.execute("alter schema cirislens rename to kept; create schema cirislens")
    for table, types in TYPES.items():
        definitions = ", ".join(f'"{column}" {kind}' for column, kind in types.items())
        names = ", ".join(f'"{column}"' for column in types)
        values = ", ".join(f'"{column}"::text::{kind}' for column, kind in types.items())
        connection.execute(
            f"create table cirislens.{table} ({definitions});"
            f"insert into cirislens.{table} ({names}) select {values} from kept.{table}"
        )
        with connection.cursor().copy(f"copy cirislens.{table} ({names}) from stdin") as copy:
            seen = set()
            for _ in range(N_TRACES if table == "covenant_traces" else N_OTHERS):
                row = malformed_row(rng, table)
                # The reference implementation does not define the order of traces of an agent with the same time.
                place = (row["agent_id_hash"], row["timestamp"]) if table == "covenant_traces" else len(seen)
                if place not in seen:
                    seen.add(place)
                    copy.write_row(list(row.values()))


def refused_counts(connection: psycopg.Connection) -> dict[str, int]:
    """Return by issue how many counts of batches before the as-of are negative, fractional or too large."""
    columns = ("traces_received", "traces_accepted", "traces_rejected")
    rows = connection.execute(
        f"select {', '.join(columns)} from cirislens.covenant_trace_batches"
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
def test_malformed_rows_stop_no_run_and_equal_the_reference(database: Database) -> None:
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(7, days=12))
        load_malformed_rows(connection)
    score(database.profiles_dir, AS_OF)
    with database.connect() as connection:
        wrong = differences_from_reference(connection, AS_OF)
        assert [line for line in wrong if "... (MD5 " not in line] == []  # the marts shorten long names
        batches = connection.execute(
            f"select issue, sum(n)::integer from {SCHEMA}.fct_data_quality where issue like '%traces\\_%' group by 1"
        )
        assert dict(batches) == refused_counts(connection)
