"""Tests that malformed rows of any kind neither stop a run nor affect another agent.

Each column of the four sources gets values that its type allows and that no lens would write, one column at a time
and many together. The run must succeed, each malformed value must be counted as by the reference implementation, and
the published rows of all other agents must be identical to those without the malformed rows.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab import embedded
from conftest import Database
from nasty_fleet import START, Row, nasty_fleet
from pipeline import insert_rows, score, wrong_counts

AS_OF = START + timedelta(days=12)
ODD, ODD_MARTS = "odd", "ciris_odd"
"""Schema of the sources with malformed rows, and schema of the published marts."""
N_TRACES, N_OTHERS = int(os.environ.get("MALFORMED_TRACES", "1000")), 300
"""Numbers of malformed rows in a run: traces (10,000 in make soak) and rows of each other table."""

# --- malformed values by type ----------------------------------------------------------------------------------------

WHITE_SPACE = "".join(c for c in map(chr, range(0x10FFFF)) if c.isspace())
TEXTS = [
    "",
    " ",
    WHITE_SPACE,
    *WHITE_SPACE,
    "x" + WHITE_SPACE,
    "\u200b",
    "\ufeff",
    "\u2400",
    "\\u0000",
    "\\x00",
    "\\",
]
TEXTS += ["-", "|", "a|b", "a" * 512, "a" * 513, "é" * 256, "é" * 257, "z" * 100_000, " " * 100_000 + "x"]
TEXTS += [
    "'; drop table x; --",
    "%s",
    "{{ 1 }}",
    "null",
    "NaN",
    "\x01",
    "\ufffd",
    "\U0010ffff",
    "ﷺ",
    "e\u0301",
    "ß",
]
BLANK_100_KB = ["\u3000" * 34_000, " " * 100_000]
ACTIONS = ["HandlerActionType.", "handleractiontype.\u00a0", "HandlerActionType.SPEAK", "HANDLERACTIONTYPE.ß"]
SCORES = ["NaN", "-0.01", "0", "1", "1.01", "9.99", "-9.99", "0.5"]
NUMERICS = [
    *SCORES,
    "Infinity",
    "-Infinity",
    "1e131071",
    "-1e131071",
    "1e-16383",
    "-1e-16383",
    "0.50" + "1" * 16_000,
]
NUMERICS += ["0.1" + "9" * 100, "0." + "9" * 40, "1." + "0" * 16_000]
FLOATS = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "0", "-0", "0.3", "1", "1.5"]
BIGINTS = [str(n) for n in (-(2**63), 2**63 - 1, -(2**63) + 1, 2**63 - 2, -1, 0, 1)]
WHOLE_NUMERICS = [
    *BIGINTS,
    "NaN",
    "Infinity",
    "-Infinity",
    str(2**63),
    str(-(2**63) - 1),
    "0.5",
    "-0.5",
    "1e131071",
]
WHOLE_NUMERICS += ["1e-16383", "7.000", "1." + "0" * 16_000 + "1"]
INTEGERS = [str(-(2**31)), str(2**31 - 1), "-1", "0", "1"]

# The hours of the malformed rows' ordinary times differ from those of the fleet, so that they cannot corroborate it.
HOURS = [timedelta(days=d, hours=h) for d in range(12) for h in (0, 20, 23)]
EDGES = [START, AS_OF, START + timedelta(days=5), datetime.fromisoformat("2020-01-01T00:00:00Z")]
ODD_TIMES = [
    (edge + timedelta(microseconds=n)).isoformat()
    for edge in EDGES
    for n in (-1, 0, 1)
    if edge > START or n >= 0
]
ODD_TIMES += ["infinity", "-infinity", "294276-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"]
ODD_TIMES += ["9999-12-31 23:59:59.999998+00", "2026-03-08 16:30:00 America/New_York"]
ODD_TIMES += ["4713-11-24 00:00:00+00 BC", "0001-12-31 23:59:59.999999+00 BC", "0001-01-03 00:00:00+00"]
ODD_TIMES += ["1970-01-01 00:00:00+00", "1999-12-31 23:59:59.999999+00", "2019-12-31 23:59:59.999999+00"]

JSON_NUMBERS = ["0", "-0", "0.5", "1e131071", "-1e131071", "1e-16383", "9" * 400, "1" * 131_072, str(2**63)]
JSON_TEXTS = [
    '""',
    '"\\\\u0000"',
    '"\\ud83d\\ude00"',
    '"\\u2028"',
    '"' + "z" * 100_000 + '"',
    '" "',
    '"true"',
    '"0.5"',
]
JSON_VALUES = [
    *JSON_NUMBERS,
    *JSON_TEXTS,
    "null",
    "true",
    "false",
    "{}",
    "[]",
    "[null]",
    "[" * 400 + "]" * 400,
]
JSON_VALUES += [
    '{"a":' * 400 + "1" + "}" * 400,
    '{"": {"": null}}',
    '{"a": 1, "a": 2}',
    "[" + "0," * 20_000 + "0]",
]
UNREADABLE = [
    '"\\u0000"',
    '"\\ud83d"',
    '"\\ude00\\ud83d"',
    '"\\\\\\u0000"',
    "1e131072",
    "1e-16384",
    "1" * 131_073,
]
KEYS = {
    "thought_start": ["round"],
    "dma_results": ["csdma", "dsdma", "csdma_plausibility_score", "dsdma_domain_alignment"],
    "conscience_result": [
        *("entropy_passed", "entropy_score", "entropy_threshold", "coherence_passed", "coherence_score"),
        *(
            "coherence_threshold",
            "optimization_veto_passed",
            "epistemic_humility_passed",
            "conscience_passed",
        ),
        *("thought_depth_triggered", "updated_status_detected", "action_was_overridden", "entropy_level"),
    ],
    "action_result": ["execution_success", "success", "audit_sequence_number", "audit_entry_hash"],
}


def documents(keys: list[str], values: list[str]) -> st.SearchStrategy[str]:
    """Generate JSON texts: any value, or objects of the given keys with any values."""
    pairs = st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=6).map(
        lambda found: "{" + ",".join(f'"{key}":{value}' for key, value in found.items()) + "}"
    )
    nested = pairs.map(lambda text: '{"csdma":' + text + ',"dsdma":' + text + "}")
    return st.sampled_from(values) | pairs | nested


@functools.cache
def column_values(table: str, column: str, kind: str) -> st.SearchStrategy[str]:
    """Generate values that a column of a type can store, in the format of COPY."""
    if kind.startswith("varchar") or kind == "text":
        longest = int(kind[8:-1]) if "(" in kind else None
        texts = [*TEXTS, *BLANK_100_KB, *(ACTIONS if column == "selected_action" else [])]
        if column == "deferral_id":
            texts = [f"deferral {n}" for n in range(40)] + texts
        return st.sampled_from([text[:longest] for text in texts])
    pools = {"boolean": ["true", "false"], "timestamptz": ODD_TIMES, "bigint": BIGINTS, "integer": INTEGERS}
    pools |= {"numeric": NUMERICS, "double precision": FLOATS}
    if kind in ("jsonb", "json"):
        values = JSON_VALUES if kind == "jsonb" else JSON_VALUES + UNREADABLE
        return documents(KEYS.get(column, ["a"]), values)
    if kind == "uuid":
        return st.uuids().map(str)
    if kind.startswith("numeric("):
        return st.sampled_from(SCORES)
    if kind == "numeric" and column in ("audit_sequence_number", "traces_received"):
        return st.sampled_from(WHOLE_NUMERICS)
    return st.sampled_from(pools[kind])


@functools.cache
def ordinary(table: str) -> st.SearchStrategy[Row]:
    """Generate a normal row of an agent that no other row has."""
    agents = st.sampled_from([f"odd-{n}" for n in range(6)])
    # Times have microseconds, so that no two rows of an agent tie completely; the reference implementation would
    # order those arbitrarily.
    times = st.tuples(st.sampled_from(HOURS), st.integers(0, 3_599_999_999)).map(
        lambda drawn: (START + drawn[0] + timedelta(microseconds=drawn[1])).isoformat()
    )
    if table == "covenant_traces":
        score, truth = st.sampled_from(["0.25", "0.5", "0.75"]), st.sampled_from(["true", "false"])
        return st.fixed_dictionaries(
            dict.fromkeys(
                ("csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_level"),
                score,
            )
            | dict.fromkeys(("signature_verified", "coherence_passed", "idma_fragility_flag"), truth)
            | {
                "trace_id": st.integers(0, 10**6).map("trace {}".format),
                "agent_id_hash": agents,
                "timestamp": times,
                "agent_name": st.just("Odd"),
                "signature": st.just("sig"),
                "signature_key_id": st.sampled_from(["odd key", "odd key 2"]),
                "audit_entry_hash": st.just("hash"),
                "audit_sequence_number": st.integers(0, 500).map(str),
                "thought_start": st.just("{}"),
            }
        )
    if table == "wbd_deferrals":
        return st.fixed_dictionaries(
            {"agent_id": agents, "agent_name": st.just("Odd"), "created_at": times}
            | {"status": st.sampled_from(["RESOLVED", "REJECTED"]), "deferral_id": st.uuids().map(str)}
        )
    if table == "covenant_public_keys":
        return st.fixed_dictionaries({"key_id": st.integers(0, 10**6).map("odd key {}".format)})
    return st.fixed_dictionaries(
        {"batch_id": st.integers(0, 2**31).map(lambda n: f"00000000-0000-0000-0000-{n:012d}")}
        | {"batch_timestamp": times, "traces_received": st.integers(0, 9).map(str)}
    )


@st.composite
def malformed_rows(draw: st.DrawFn, table: str, types: Mapping[str, str]) -> Row:
    """Generate a normal row in which one, some or all columns are malformed or missing."""
    columns = list(types)
    some = st.lists(st.sampled_from(columns), unique=True, min_size=1)
    chosen = draw(st.sampled_from(columns).map(lambda column: [column]) | some | st.just(columns))
    row = dict.fromkeys(columns) | draw(ordinary(table))
    for column in chosen:
        required = SOURCE_TABLES[table].key + ("agent_id_hash", "agent_id", "timestamp")
        if column in required or draw(st.integers(0, 9)) > 0:
            row[column] = draw(column_values(table, column, types[column]))
        else:
            row[column] = None
    return row


def drawn_rows(table: str, types: Mapping[str, str], n: int) -> list[Row]:
    """Return n malformed rows of a table, always the same ones."""
    rows: list[Row] = []

    @settings(
        max_examples=n,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(malformed_rows(table, types))
    def draw(row: Row) -> None:
        rows.append(row)

    draw()
    return rows


# --- sources ---------------------------------------------------------------------------------------------------------


def production_types(table: str) -> dict[str, str]:
    """Return types by column, without constraints."""
    return {column: kind.removesuffix(" not null") for column, kind in SOURCE_TABLES[table].columns}


def loose_types(table: str) -> dict[str, str]:
    """Return the widest alternative types that can be read, by column."""
    wider = {
        "jsonb": "json",
        "bigint": "numeric",
        "integer": "numeric",
        "uuid": "text",
        "numeric": "double precision",
    }
    return {
        column: "text"
        if kind.startswith("varchar")
        else "numeric"
        if kind.startswith("numeric(")
        else wider.get(kind, kind)
        for column, kind in production_types(table).items()
    }


def fleet_without_neighbours() -> dict[str, list[Row]]:
    """Return the other agents, whose traces are in hours without malformed rows."""
    fleet = nasty_fleet(7, days=12)
    for row in fleet["covenant_traces"]:
        row["trace_id"] = row["trace_id"] or "no id"
        for column in ("csdma_plausibility_score", "dsdma_domain_alignment"):
            row[column] = None if row[column] is None else round(row[column], 2)
        row["signature"] = row["signature"] or None
    kept = {
        (r["trace_id"], r["timestamp"]): r for r in fleet["covenant_traces"] if 1 <= r["timestamp"].hour < 20
    }
    return fleet | {"covenant_traces": list(kept.values())}


def make_unique(rows: list[Row], table: str, types: Mapping[str, str]) -> None:
    """Rename rows that repeat a key, because production's key is unique."""
    first, *rest = SOURCE_TABLES[table].key
    seen = set()
    for n, row in enumerate(rows):
        if (row[first], *(row[column] for column in rest)) in seen:
            row[first] = f"10000000-0000-0000-0000-{n:012d}" if types[first] == "uuid" else f"row {n}"
        seen.add((row[first], *(row[column] for column in rest)))


def load_odd_rows(
    connection: psycopg.Connection, types: Mapping[str, Mapping[str, str]], *, unique: bool
) -> Counter:
    """Add malformed rows to all four tables and return their number by table."""
    n_rows = Counter()
    for table, columns in types.items():
        rows = drawn_rows(table, columns, N_TRACES if table == "covenant_traces" else N_OTHERS)
        if unique:
            make_unique(rows, table, columns)
        query = sql.SQL("copy {} ({}) from stdin").format(
            sql.Identifier(ODD, table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with connection.cursor().copy(query) as copy:
            for row in rows:
                copy.write_row([row[column] for column in columns])
        n_rows[table] = len(rows)
    return n_rows


MARTS = {
    "fct_capacity_scores": "capacity_score_id",
    "fct_factor_components": "factor_component_id",
    "fct_trace_checks": "trace_check_id",
    "fct_data_quality": "data_quality_id",
}


def without_limits(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without the confidence bounds, the long run and values derived from them.

    They depend on all agents of the fleet.
    """
    of_limits = ("_low", "_high", "design_effect", "interval_driver", "_certainty", "verdict", "review_for")
    of_fleet = (*of_limits, "grant_score", "withhold_score", "probability_at_threshold")
    return {
        column: value
        for column, value in row.items()
        if not column.endswith(of_fleet) and "steady" not in column
    }


def others(connection: psycopg.Connection, schema: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the published rows of agents without malformed rows, by mart and key."""
    published = {}
    for mart, key in MARTS.items():
        rows = connection.execute(
            sql.SQL(
                "select to_jsonb(m) - 'scored_at' from {} as m join public.agents using (agent_id_hash)"
            ).format(sql.Identifier(schema, mart))
        ).fetchall()
        assert rows
        published |= {(mart, row[key]): without_limits(row) for [row] in rows}
    return published


def refused_counts(connection: psycopg.Connection, schema: str) -> dict[str, int]:
    """Return the number of invalid counts of batches before the as-of: negative, fractional or too large for an
    integer."""
    columns = ("traces_received", "traces_accepted", "traces_rejected")
    rows = connection.execute(
        f"select {', '.join(columns)} from {schema}.covenant_trace_batches"
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


@pytest.fixture(scope="module")
def fleet_database(module_database: Database) -> Database:
    """The scored fleet without malformed rows."""
    with module_database.connect() as connection:
        create_source_tables(connection)
        for table, rows in fleet_without_neighbours().items():
            insert_rows(connection, table, rows)
        connection.execute(
            "create table public.agents as select distinct agent_id_hash from cirislens.covenant_traces"
            " where agent_id_hash <> ' '"
        )
    score(module_database.profiles_dir, AS_OF)
    return module_database


@pytest.mark.parametrize("types_of", [production_types, loose_types])
def test_malformed_rows_affect_no_other_agent(
    fleet_database: Database, tmp_path: Path, types_of: Callable[[str], dict[str, str]]
) -> None:
    types = {table: types_of(table) for table in SOURCE_TABLES}
    as_in_production = types_of is production_types
    with fleet_database.connect() as connection:
        for schema in (ODD, ODD_MARTS, f"{ODD_MARTS}_staging", f"{ODD_MARTS}_intermediate"):
            connection.execute(f"drop schema if exists {schema} cascade")
        create_source_tables(connection, ODD)
        for table, columns in types.items():
            if not as_in_production:
                definitions = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
                connection.execute(f"drop table {ODD}.{table}; create table {ODD}.{table} ({definitions})")
            names = ", ".join(f'"{column}"' for column in columns)
            values = ", ".join(
                f'"{column}"{"::text" if kind in ("json", "text") else ""}::{kind}'
                for column, kind in columns.items()
            )
            connection.execute(f"insert into {ODD}.{table} ({names}) select {values} from cirislens.{table}")
        n_rows = load_odd_rows(connection, types, unique=as_in_production)
        assert n_rows["covenant_traces"] == N_TRACES
    embedded.write_profile(tmp_path, fleet_database.server, database=fleet_database.name, schema=ODD_MARTS)
    score(tmp_path, AS_OF, {"ciris_source_schema": ODD})
    with fleet_database.connect() as connection:
        found, wanted = others(connection, ODD_MARTS), others(connection, "ciris")
        assert found.keys() == wanted.keys()
        assert {key: (found[key], row) for key, row in wanted.items() if found[key] != row} == {}
        assert wrong_counts(connection, ODD_MARTS, AS_OF, ODD) == []
        batches = connection.execute(
            sql.SQL(
                "select issue, sum(n) from {}.fct_data_quality where issue like '%traces\\_%' group by 1"
            ).format(sql.Identifier(ODD_MARTS))
        )
        assert {issue: int(n) for issue, n in batches} == refused_counts(connection, ODD)
