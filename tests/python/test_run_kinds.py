"""Tests of the marks of run kinds (scoring.md §2): each mark in each place and in each type that a column may have."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from ciris_scoring.database.project import load_project
from ciris_scoring.database.source_schema import create_source_tables
from ciris_scoring.job.check import _asked
from command_line import command
from conftest import REPOSITORY, Database
from event_lens import create_engine_tables

START = datetime(2026, 6, 1, tzinfo=UTC)
NO_MARK: list[tuple[Any, str]] = [(None, "production"), ("", "production"), (" \t", "production")]
WORDS: dict[str, list[tuple[Any, str]]] = {
    "run_kind": [
        *NO_MARK, (" Production", "production"), ("mock", "mock"), ("MOCK ", "mock"), ("qa", "test"),
        ("staging", "test"),
    ],
    "deployment_type": [
        *NO_MARK, ("staging", "production"), ("mockup", "production"), (" Mock", "mock"), ("QA", "test"),
        ("battery\u00a0", "test"), ("test", "test"), ("Development", "test"),
    ],
    "models_used": [*NO_MARK, ("llama", "production"), ("llama (Mock)", "mock")],
    "model": [*NO_MARK, ("m\u03bfck", "production"), ("aMOCKa", "mock")],
}  # fmt: skip
"""Texts of each mark, with the run kind that they state."""


def in_json(word: Any) -> list[Any]:
    """Return JSON values that contain a word."""
    return [word, [word], ["production", [word]], [None, word], {"a": word}]


def in_array(word: Any) -> list[Any]:
    return [None if word is None else [word], ["production", word]]


TYPES = {
    "text": lambda word: [word],
    "varchar(40)": lambda word: [word],
    "text[]": in_array,
    "varchar[]": in_array,
    "jsonb": lambda word: [None if word is None else Jsonb(value) for value in in_json(word)],
}
PROFILES = [
    ({"run_kind": "mock"}, "mock"), ({"run_kind": "battery"}, "test"), ({"deployment_type": "qa"}, "test"),
    ({"run_kind": "production", "deployment_type": "mock"}, "mock"),
    ({"run_kind": "production", "deployment_type": "mock", "trace_format_version": "2.8.0"}, "production"),
    ({"run_kind": "qa", "deployment_type": "production", "trace_format_version": "2.10.1"}, "test"),
    ({"deployment_type": "qa", "trace_format_version": "2.7.9"}, "test"),
    ({"deployment_type": "qa", "trace_format_version": " 3.0"}, "production"),
    ({"deployment_type": "qa", "trace_format_version": "new"}, "test"),
    ({"run_kind": 7}, "test"), ("mock", "production"),
]  # fmt: skip
"""Deployment profiles, with the run kind that they state."""


def found_kinds(database: Database) -> Iterator[str]:
    """Yield the run kinds of the traces in the source, in the order of time."""
    query = _asked(load_project(REPOSITORY, database.profiles_dir), "run_kinds_query() | tojson")
    with database.connect() as connection:
        rows = connection.execute(query.encode()).fetchall()
    yield from (kind for _, kind in sorted(rows))


def wrong(database: Database, cases: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the cases whose last member is not the run kind that was found, with that."""
    return [(*case, kind) for case, kind in zip(cases, found_kinds(database), strict=True) if case[-1] != kind]


@pytest.mark.parametrize("column_type", TYPES)
def test_marks_of_rows_are_read_in_every_type(database: Database, column_type: str) -> None:
    cases = [
        (mark, value, kind)
        for mark, words in WORDS.items()
        for word, kind in words
        for value in TYPES[column_type](word)
    ]
    with database.connect() as connection:
        create_source_tables(connection)
        for mark in WORDS:
            connection.execute(f"alter table cirislens.covenant_traces drop column if exists {mark}")
            connection.execute(f"alter table cirislens.covenant_traces add {mark} {column_type}".encode())
        for number, (mark, value, _) in enumerate(cases):
            query = sql.SQL(
                'insert into cirislens.covenant_traces (trace_id, agent_id_hash, "timestamp", {})'
                " values (%s, %s, %s, %s)"
            ).format(sql.Identifier(mark))
            connection.execute(query, [str(number), "a", START + number * timedelta(minutes=1), value])
    assert wrong(database, cases) == []


def cases_of_events() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], str]]:
    """Yield type, columns and payload of an event, with the run kind of its trace."""
    for mark in ("run_kind", "deployment_type"):
        for (word, kind), event_type in itertools.product(WORDS[mark], ("DMA_RESULTS", "LLM_CALL", "A_NEW_ONE")):
            yield event_type, {mark: word}, {}, kind
            for value in in_json(word):
                yield event_type, {}, {mark: value}, kind
    for event_type, mark in (("ACTION_RESULT", "models_used"), ("LLM_CALL", "model")):
        for word, kind in WORDS[mark]:
            for value in in_json(word):
                yield event_type, {}, {mark: value}, kind
    for profile, kind in PROFILES:
        yield "A_NEW_ONE", {}, {"deployment_profile": profile}, kind
    yield "A_NEW_ONE", {"deployment_type": "qa"}, {"trace_format_version": "2.8.0"}, "production"
    yield "DMA_RESULTS", {}, {"models_used": "mock", "model": "mock"}, "production"


def test_marks_of_events_are_read_in_columns_and_payloads_of_every_type(database: Database) -> None:
    cases = list(cases_of_events())
    with database.connect() as connection:
        create_engine_tables(connection)
        connection.execute("alter table cirislens.trace_events add run_kind text")
        rows = []
        for number, (event_type, columns, payload, _) in enumerate(cases):
            at = START + number * timedelta(minutes=1)
            if event_type != "ACTION_RESULT":
                rows.append((str(number), "ACTION_RESULT", at, None, None, Jsonb({})))
            marks = (columns.get("run_kind"), columns.get("deployment_type"))
            rows.append((str(number), event_type, at, *marks, Jsonb(payload)))
        connection.cursor().executemany(
            "insert into cirislens.trace_events (trace_id, thought_id, event_type, ts, run_kind, deployment_type,"
            " payload, agent_id_hash, trace_level) values (%s, 'th', %s, %s, %s, %s, %s, 'a', 'detailed')",
            rows,
        )
    assert wrong(database, cases) == []
    unmarked = sum(
        run_kind is None
        and deployment_type is None
        and {"ACTION_RESULT": "models_used", "LLM_CALL": "model"}.get(event_type) not in payload.obj
        and not payload.obj.keys() & {"run_kind", "deployment_type", "deployment_profile", "trace_format_version"}
        for _, event_type, _, run_kind, deployment_type, payload in rows
    )
    said = " ".join(command(database, "check", "--vars", "{ciris_as_of: 2026-06-11}").output.split())
    assert f"{unmarked:,} of {len(rows):,} events have no mark of a run kind that can be read" in said


def test_json_mark_is_refused_with_the_cast(database: Database) -> None:
    with database.connect() as connection:
        create_source_tables(connection)
        connection.execute("alter table cirislens.covenant_traces add deployment_type json")
    result = command(database, "check")
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "deployment_type is json and must be jsonb: case when pg_input_is_valid" in said
