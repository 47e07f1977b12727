"""Tests of the fleet table: its content, and that no name breaks its layout."""

import json
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import wcwidth
from psycopg.types.json import Jsonb

from ciris_scoring.basics.terminal import width
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.fleet_table import fleet_tables
from pipeline import MARTS

AS_OF = datetime(2026, 6, 15, tzinfo=UTC)


@pytest.fixture
def connection(scored_sample, monkeypatch):
    """The marts of the sample without rows of agents. Changes are rolled back."""
    monkeypatch.delenv("COLUMNS", raising=False)
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local search_path to {SCHEMA}")
        for mart in ("fct_capacity_scores", "fct_capacity_alerts", "fct_record_signs"):
            connection.execute(
                f"create temporary table a_{mart} as select * from {mart} limit 1; delete from {mart}"
            )
        yield connection


def add(connection: psycopg.Connection, mart: str, **values: Any) -> None:
    """Add a row that copies an existing one except for the given values."""
    connection.execute(
        f"insert into {mart} select (jsonb_populate_record(null::{mart}, to_jsonb(row) || %s)).* from a_{mart} as row",
        [Jsonb(values | {f"{mart.removeprefix('fct_').removesuffix('s')}_id": str(values)}, dumps=_dumps)],
    )


def add_score(connection, agent, name, low, high=0.9, window_days=7, as_of=AS_OF, **values):
    """Add a score with the given bounds of the steady score."""
    known = low is not None
    add(
        connection, "fct_capacity_scores", agent_id_hash=agent, agent_name=name, as_of=as_of, window_days=window_days,
        capacity_score=0.5 if known else None, capacity_score_low=0.4 if known else None,
        capacity_score_high=0.6 if known else None, capacity_score_steady=low, capacity_score_steady_low=low,
        capacity_score_steady_high=high if known else None, category_steady="healthy" if known else None,
        score_status="final" if known else "insufficient_data", weakest_factor="S", r_ceiling_loss=0.07,
        grant_score=low, withhold_score=high if known else None, **values,
    )  # fmt: skip


def add_alert(connection, agent, name, kind, severity="critical", window_days=7):
    add(
        connection, "fct_capacity_alerts", agent_id_hash=agent, agent_name=name, as_of=AS_OF, kind=kind,
        severity=severity, window_days=window_days, message="What it says.",
    )  # fmt: skip


def _dumps(values: object) -> str:
    return json.dumps(values, default=str)


def test_agents_that_need_attention_come_first(connection):
    add_score(connection, "aaaaaaaa11", "New", None)
    add_score(connection, "bbbbbbbb22", "Good", 0.8)
    add_score(connection, "cccccccc33", None, 0.1, 0.2999)
    add_score(connection, "dddddddd44", "Odd", 0.7)
    add_score(connection, "eeeeeeee55", "Even", 0.5)
    add_alert(connection, "cccccccc33", None, "falling", "warning")
    add_alert(connection, "cccccccc33", None, "low_capacity")
    add_alert(connection, "cccccccc33", None, "silent", "warning")
    add_alert(connection, "ffffffff66", "Hush", "silent", "warning")
    flag = {"agent_id_hash": "dddddddd44", "as_of": AS_OF, "window_days": 7, "red_flag": "shared_key"}
    add(connection, "fct_record_signs", **flag)
    text, _, causes = fleet_tables(connection, MARTS, AS_OF).rpartition("\n\n")
    assert [line.split()[0] for line in causes.splitlines()] == ["Odd", "(cccccccc):", "silent:"]
    assert "silent: Hush (ffffffff), without a score in this window. What it says." in causes
    lines = text.splitlines()
    assert lines[0] == (
        "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 5 agents; for a threshold of 0.6: "
        "review 1, withhold 1, keep 1, wait 1, grant 1"
    )
    assert [line.split()[0] for line in lines[4:9]] == ["Odd", "(cccccccc)", "Even", "New", "Good"]
    of_odd, of_nameless = (" ".join(line.split()) for line in lines[4:6])
    assert (
        of_odd
        == "Odd (dddddddd) review 66 % 0.700 [0.70, 0.90] 0.500 [0.40, 0.60] healthy final S shared_key"
    )
    assert of_nameless.endswith(" 0.100 [0.10, 0.29] 0.500 [0.40, 0.60] healthy final S low_capacity, +2")
    assert lines[7].split() == ["New", "(aaaaaaaa)", "wait", "-", "-", "-", "-", "insufficient_data", "S"]


def test_empty_fleet_gives_one_sentence(connection):
    assert fleet_tables(connection, MARTS, AS_OF) == (
        "No agent has a trace in a scoring window at 2026-06-15T00:00:00Z: the fleet table is empty."
    )


def test_large_fleet_lists_agents_that_need_attention_and_counts_the_rest(connection):
    for i in range(6):
        add_score(connection, f"{i:08d}", f"Agent {i}", i / 10, 0.92)
    lines = fleet_tables(connection, MARTS, AS_OF, most=3).splitlines()
    assert len(lines) == 4 + 3 + 1 and lines[-1] == "... and 3 more agents that need less attention."


@pytest.mark.parametrize("room", [70, 140, 200])
def test_the_table_fits_the_terminal(connection, monkeypatch, room):
    add_score(connection, "e" * 64, "An agent with a name that goes on and on and never ends", None)
    add_score(connection, "f" * 64, "Another", 0.5)
    for kind in ("low_capacity", "broken_chain", "falling", "silent"):
        add_alert(connection, "e" * 64, None, kind)
    if room != 140:
        monkeypatch.setenv("COLUMNS", str(room))
    _, *lines = fleet_tables(connection, MARTS, AS_OF).splitlines()
    assert max(map(width, lines)) <= room
    headings = set(lines[1].split())
    assert {"agent", "verdict", "score", "alerts"} <= headings
    assert headings & {"I_int", "alone"} == ({"I_int"} if room == 200 else set()) | (
        {"alone"} if room > 70 else set()
    )


def test_agents_with_equal_names_and_hash_beginnings_are_distinguished(connection):
    add_score(connection, "3f764637717ba9ec", "Scout", 0.5)
    add_score(connection, "3f764637aaaaaaaa", "Scout", 0.6)
    add_score(connection, "3f764637bbbbbbbb", "Other", 0.7)
    agents = {line.split("  ")[0] for line in fleet_tables(connection, MARTS, AS_OF).splitlines()[4:]}
    assert agents == {"(3f764637717ba9ec)", "(3f764637aaaaaaaa)", "Other (3f764637)"}


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
    add_score(connection, "aaaaaaaa11", "Plain", 0.5)
    plain = fleet_tables(connection, MARTS, AS_OF).splitlines()
    add_score(connection, name, name, 0.9)
    add_alert(connection, name + "2", name, "silent")
    lines = fleet_tables(connection, MARTS, AS_OF).splitlines()
    assert len(lines) == len(plain) + 2
    assert all(line.isprintable() for line in lines)
    starts = zip((lines[2], *lines[4:6]), ("verdict", "keep", "grant"), strict=True)
    assert len({wcwidth.wcswidth(line[: line.index(cell)]) for line, cell in starts}) == 1
