"""Tests that malformed rows of any kind neither stop a run nor affect another agent.

Each column of the four sources gets values that its type allows and that no lens would write, one column at a time
and many together. The run must succeed, each malformed value must be counted as by the reference implementation, and
the published rows of all other agents must be identical to those without the malformed rows.
"""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import Environment
from psycopg import sql

from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server
from conftest import REPOSITORY, Database
from nasty_fleet import START, Row, nasty_fleet
from pipeline import insert_rows, score, wrong_counts

AS_OF = START + timedelta(days=12)
ODD, ODD_MARTS = "odd", "ciris_odd"
"""Schema of the sources with malformed rows, and schema of the published marts."""
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
SCORES = ["NaN", "-0.01", "0", "1", "1.01", "9.99", "-9.99", "0.5"]
FLOATS = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324", "0", "-0", "0.3", "1", "1.5"]
BIGINTS = [str(n) for n in (-(2**63), 2**63 - 1, -(2**63) + 1, 2**63 - 2, -1, 0, 1)]
NUMERICS = [
    *("NaN", "Infinity", "-Infinity", str(2**63), str(-(2**63) - 1), "0.5", "-0.5", "1e131071", "-1e131071"),
    *(
        "1e-16383",
        "7.000",
        "1." + "0" * 16_000 + "1",
        "0.1" + "9" * 100,
        "1." + "0" * 16_000,
        *BIGINTS,
        *SCORES,
    ),
]
# The hours of the malformed rows' ordinary times differ from those of the fleet, so that they cannot corroborate it.
HOURS = [timedelta(days=d, hours=h) for d in range(12) for h in (0, 20, 23)]
FIRST_ACCEPTED = datetime.fromisoformat("2020-01-01T00:00:00Z")
ODD_TIMES = [
    (edge + timedelta(microseconds=n)).isoformat()
    for edge in (START, AS_OF, START + timedelta(days=5), FIRST_ACCEPTED)
    for n in (-1, 0, 1)
    if edge > START or n >= 0
]
ODD_TIMES += ["infinity", "-infinity", "294276-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"]
ODD_TIMES += ["4713-11-24 00:00:00+00 BC", "0001-12-31 23:59:59.999999+00 BC", "0001-01-03 00:00:00+00"]
ODD_TIMES += ["1970-01-01 00:00:00+00", "2026-03-08 16:30:00 America/New_York"]

JSON_VALUES = [
    *("0", "-0", "0.5", "1e131071", "-1e131071", "1e-16383", "9" * 400, "1" * 131_072, str(2**63)),
    *('""', '"\\\\u0000"', '"\\ud83d\\ude00"', '"\\u2028"', '"true"', '"0.5"', '"' + "z" * 100_000 + '"'),
    *("null", "true", "false", "{}", "[]", "[null]", "[" * 400 + "]" * 400, '{"a":' * 400 + "1" + "}" * 400),
    *('{"": {"": null}}', '{"a": 1, "a": 2}', "[" + "0," * 20_000 + "0]"),
]
UNREADABLE = ['"\\u0000"', '"\\ud83d"', "1e-16384", '"\\\\\\u0000"', "1e131072", "1" * 131_073]
POOLS = {
    "boolean": ["true", "false"],
    "timestamptz": ODD_TIMES,
    "bigint": BIGINTS,
    "integer": [str(-(2**31)), str(2**31 - 1), "-1", "0", "1"],
    "numeric": NUMERICS,
    "double precision": FLOATS,
}
JSON_KEYS = {
    "thought_start": ["round"],
    "dma_results": ["csdma", "dsdma", "csdma_plausibility_score", "dsdma_domain_alignment"],
    "conscience_result": [
        *("entropy_passed", "entropy_score", "entropy_threshold", "coherence_passed", "coherence_score"),
        *("coherence_threshold", "optimization_veto_passed", "conscience_passed", "entropy_level"),
        *("thought_depth_triggered", "updated_status_detected", "action_was_overridden"),
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
def column_values(column: str, kind: str) -> st.SearchStrategy[str]:
    """Generate values that a column of a type can store, in the format of COPY."""
    if kind.startswith("varchar") or kind == "text":
        longest = int(kind[8:-1]) if "(" in kind else None
        texts = [*TEXTS, *(ACTIONS if column == "selected_action" else [])]
        if column == "deferral_id":
            texts = [f"deferral {n}" for n in range(40)] + texts
        return st.sampled_from([text[:longest] for text in texts])
    if kind in ("jsonb", "json"):
        values = JSON_VALUES if kind == "jsonb" else JSON_VALUES + UNREADABLE
        return documents(JSON_KEYS.get(column, ["a"]), values)
    if kind == "uuid":
        return st.uuids().map(str)
    return st.sampled_from(SCORES if kind.startswith("numeric(") else POOLS[kind])


# Times have microseconds, so that no two rows of an agent tie completely; the reference implementation would order
# those arbitrarily.
TIMES = st.tuples(st.sampled_from(HOURS), st.integers(0, 3_599_999_999)).map(
    lambda drawn: (START + drawn[0] + timedelta(microseconds=drawn[1])).isoformat()
)
ORDINARY: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(("timestamp", "batch_timestamp"), TIMES),
    **dict.fromkeys(("agent_id_hash", "agent_id"), st.sampled_from([f"odd-{n}" for n in range(6)])),
    **dict.fromkeys(
        ("csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_level"),
        st.sampled_from(["0.25", "0.5", "0.75"]),
    ),
    **dict.fromkeys(
        ("signature_verified", "coherence_passed", "idma_fragility_flag"), st.sampled_from(["true", "false"])
    ),
    "agent_name": st.just("Odd"),
    "trace_id": st.integers(0, 10**6).map("trace {}".format),
    "signature": st.just("sig"),
    "signature_key_id": st.sampled_from(["odd key", "odd key 2"]),
    "audit_entry_hash": st.just("hash"),
    "audit_sequence_number": st.integers(0, 500).map(str),
    "thought_start": st.just("{}"),
    "status": st.sampled_from(["RESOLVED", "REJECTED"]),
    "deferral_id": st.uuids().map(str),
    "key_id": st.integers(0, 10**6).map("odd key {}".format),
    "batch_id": st.uuids().map(str),
    "traces_received": st.integers(0, 9).map(str),
}
"""Normal values of columns of an agent that no other row has. Other columns are null."""


@st.composite
def malformed_rows(draw: st.DrawFn, table: str, types: Mapping[str, str]) -> Row:
    """Generate a normal row in which one, some or all columns are malformed or missing."""
    columns = list(types)
    some = st.lists(st.sampled_from(columns), unique=True, min_size=1)
    chosen = draw(st.sampled_from(columns).map(lambda column: [column]) | some | st.just(columns))
    normal = {column: ORDINARY[column] for column in columns if column in ORDINARY}
    if table == "wbd_deferrals":
        normal["created_at"] = TIMES
    row = dict.fromkeys(columns) | draw(st.fixed_dictionaries(normal))
    for column in chosen:
        required = SOURCE_TABLES[table].key + ("agent_id_hash", "agent_id", "timestamp")
        if column in required or draw(st.integers(0, 9)) > 0:
            row[column] = draw(column_values(column, types[column]))
        else:
            row[column] = None
    return row


def drawn_rows(table: str, types: Mapping[str, str], n: int) -> list[Row]:
    """Return n malformed rows of a table, always the same ones."""
    rows: list[Row] = []
    always = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))

    @settings(always, max_examples=n)
    @given(malformed_rows(table, types))
    def draw(row: Row) -> None:
        rows.append(row)

    draw()
    return rows


# --- sources ---------------------------------------------------------------------------------------------------------


def production_types(table: str) -> dict[str, str]:
    """Return types by column, without constraints."""
    return {column: kind.removesuffix(" not null") for column, kind in SOURCE_TABLES[table].columns}


WIDER = {"jsonb": "json", "uuid": "text", "numeric": "double precision"}
WIDER |= dict.fromkeys(("bigint", "integer"), "numeric")


def loose_types(table: str) -> dict[str, str]:
    """Return the widest alternative types that can be read, by column."""
    return {
        column: WIDER.get(kind, re.sub(r"\(.*\)", "", kind).replace("varchar", "text"))
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


def load_odd_rows(connection: psycopg.Connection, types: Mapping[str, Mapping[str, str]]) -> None:
    """Add malformed rows to all four tables. Rows that repeat a key of production are left out."""
    for table, columns in types.items():
        names = {"odd": sql.Identifier(ODD, table), "drawn": sql.Identifier(ODD, f"{table}_drawn")}
        connection.execute(sql.SQL("create table {drawn} (like {odd})").format(**names))
        query = sql.SQL("copy {drawn} ({columns}) from stdin").format(
            **names, columns=sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with connection.cursor().copy(query) as copy:
            for row in drawn_rows(table, columns, N_TRACES if table == "covenant_traces" else N_OTHERS):
                copy.write_row([row[column] for column in columns])
        added = connection.execute(
            sql.SQL("insert into {odd} select * from {drawn} on conflict do nothing").format(**names)
        )
        assert added.rowcount > 50


# Columns that do not depend on other agents of the fleet. Confidence bounds, the long run and verdicts do.
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
    with fleet_database.connect() as connection:
        for schema in (ODD, ODD_MARTS, f"{ODD_MARTS}_staging", f"{ODD_MARTS}_intermediate"):
            connection.execute(f"drop schema if exists {schema} cascade")
        create_source_tables(connection, ODD)
        for table, columns in types.items():
            if types_of is loose_types:
                definitions = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
                connection.execute(f"drop table {ODD}.{table}; create table {ODD}.{table} ({definitions})")
            names = ", ".join(f'"{column}"' for column in columns)
            values = ", ".join(
                f'"{column}"{"::text" if kind in ("json", "text") else ""}::{kind}'
                for column, kind in columns.items()
            )
            connection.execute(f"insert into {ODD}.{table} ({names}) select {values} from cirislens.{table}")
        load_odd_rows(connection, types)
    embedded.write_profile(tmp_path, fleet_database.server, database=fleet_database.name, schema=ODD_MARTS)
    score(tmp_path, AS_OF, {"ciris_source_schema": ODD})
    with fleet_database.connect() as connection:
        found = others(connection, ODD_MARTS)
        for mart, rows in others(connection, "ciris").items():
            assert found[mart] == rows, mart
        assert wrong_counts(connection, ODD_MARTS, AS_OF, ODD) == []
        batches = connection.execute(
            sql.SQL(
                "select issue, sum(n) from {}.fct_data_quality where issue like '%traces\\_%' group by 1"
            ).format(sql.Identifier(ODD_MARTS))
        )
        assert {issue: int(n) for issue, n in batches} == refused_counts(connection, ODD)


# --- JSON that jsonb refuses -----------------------------------------------------------------------------------------

IS_READABLE = {
    **{
        '"\\u0000"': False,
        '"\\\\u0000"': True,
        '"\\ud83d"': False,
        '"\\uD83D\\uDe00"': True,
        '"u0000"': True,
    },
    **{"1e131071": True, "1e131072": False, "12e131071": False, "0.001e131074": True, "0.001e131075": False},
    **{"1e-16383": True, "1e-16384": False, "1.5e-16383": False, "0e200000": True, "1e+0000000000005": True},
    **{"1" * 131_072: True, "1" * 131_073: False, "0." + "1" * 16_383: True, "0." + "1" * 16_384: False},
    **{"[" * n + "1" + "]" * n: n <= 5000 for n in (5000, 5001, 12_000)},
    **{'{"a":' * n + "1" + "}" * n: n <= 5000 for n in (5000, 5001)},
    **{"[" + "[],{}," * 9_000 + "1]": True, '"' + "[" * 9_000 + '"': True},
}
"""Documents that json accepts, and whether jsonb does. Documents with deeper nesting may exceed the stack of the
server."""


def test_json_that_jsonb_refuses_is_recognized(every_postgres: Server) -> None:
    macro = (REPOSITORY / "macros/cleaning/readable_json.sql").read_text()
    condition = Environment().from_string(macro + "{{ is_readable_json('d::text') }}").render()
    with psycopg.connect(every_postgres.conninfo("postgres")) as connection:
        query = sql.SQL("select d::text, {} from unnest(%s::json[]) as t (d)").format(sql.SQL(condition))
        rows = connection.execute(query, [list(IS_READABLE)]).fetchall()
        assert {d[:100]: found for d, found in rows if found != IS_READABLE[d]} == {}
        readable = [d for d, found in rows if found]
        connection.execute("select d::jsonb from unnest(%s::json[]) as t (d)", [readable])
