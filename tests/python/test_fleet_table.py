"""Tests of the fleet table: that it fits the terminal, and that no name breaks its layout. test_documents.py compares
the table with README.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import wcwidth

from ciris_scoring.basics.terminal import width
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.fleet_table import fleet_tables
from conftest import Database
from pipeline import MARTS

AS_OF = datetime(2026, 6, 15, tzinfo=UTC)


@pytest.fixture
def connection(scored_sample: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A connection to the sample whose changes are rolled back."""
    monkeypatch.delenv("COLUMNS", raising=False)
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local search_path to {SCHEMA}")
        yield connection


def rename(connection: psycopg.Connection, agent: str, name: str, new_hash: str) -> None:
    """Change the name and the hash of an agent."""
    for mart in ("fct_capacity_scores", "fct_capacity_alerts"):
        query = f"update {mart} set agent_name = %s, agent_id_hash = %s where agent_name = %s"
        connection.execute(query, [name, new_hash, agent])


def table(connection: psycopg.Connection, **options: Any) -> list[str]:
    """Return the lines of the table of the week."""
    return fleet_tables(connection, MARTS, AS_OF, 7, **options).splitlines()


def test_agents_and_alerts_that_are_not_in_the_table_are_named(connection):
    assert "... and 11 more agents that need less attention." in table(connection, most=3)
    connection.execute("delete from fct_capacity_scores")
    lines = table(connection)
    assert "No agent has a trace in this window." in lines
    assert [
        line for line in lines if line.startswith("silent: Hush (3f13792d), without a score in this window. ")
    ]
    connection.execute("delete from fct_capacity_alerts")
    assert table(connection) == [
        "No agent has a trace in a scoring window at 2026-06-15T00:00:00Z: the fleet table is empty."
    ]


@pytest.mark.parametrize("room", [70, 140, 200])
def test_the_table_fits_the_terminal(connection, monkeypatch, room):
    rename(connection, "Sprout", "An agent with a name that goes on and on and never ends", "e" * 64)
    if room != 140:
        monkeypatch.setenv("COLUMNS", str(room))
    _, *lines = table(connection)
    assert max(map(width, lines)) <= room
    headings = set(lines[1].split())
    assert {"agent", "verdict", "score", "alerts"} <= headings
    assert ("I_int" in headings, "alone" in headings, "sure" in headings) == (
        room == 200,
        room > 70,
        room > 70,
    )


def test_agents_with_equal_names_and_hash_beginnings_are_distinguished(connection):
    rename(connection, "Link", "Scout", "3f764637717ba9ec")
    rename(connection, "Fable", "Scout", "3f764637aaaaaaaa")
    rename(connection, "Echo", "Other", "3f764637bbbbbbbb")
    agents = {line.split("  ")[0] for line in table(connection)[4:]}
    assert {"(3f764637717ba9ec)", "(3f764637aaaaaaaa)", "Other (3f764637)"} <= agents


HOSTILE_NAMES = [
    "\x1b[2J\x1b[31mred",
    "two\nlines\r\u2028three",
    "\u202egnirts\u202c\u200f",
    "\u3164zero\u200bwidth\u2060\ufeff",
    "探索者" * 9,
    "👩\u200d👩\u200d👧 family",
    "e" + "\u0301" * 99,
    "\x9b31m\x7f",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_names_and_hashes_do_not_shift_columns(connection, name):
    plain = table(connection)
    rename(connection, "Hush", name, name)
    lines = table(connection)
    assert len(lines) == len(plain)
    verdicts = [
        re.search("  (verdict|review|withhold|wait|grant) ", line) for line in (lines[2], *lines[4:18])
    ]
    assert len({wcwidth.wcswidth(found.string[: found.start()]) for found in verdicts}) == 1
    connection.execute("delete from fct_capacity_scores where agent_id_hash = %s", [name])
    assert all(line.isprintable() for line in (*lines, *table(connection)))
