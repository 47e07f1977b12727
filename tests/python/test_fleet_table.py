"""Tests of the fleet table: it fits the terminal, and names do not break its layout.

test_documents.py compares the table with README. The table of alerts says since when each is raised, and which are new.
"""

import csv
import json
import re
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import wcwidth

from ciris_scoring.database.terminal import width
from ciris_scoring.show.tables import fleet_table
from command_line import command, succeeded
from conftest import Database
from pipeline import MARTS

AS_OF = datetime(2026, 6, 15, tzinfo=UTC)


def rename(connection: psycopg.Connection, agent: str, name: str, new_hash: str) -> None:
    for mart in ("fct_score_certainty", "fct_verdicts"):
        of_agent = "agent_id_hash in (select agent_id_hash from fct_capacity_scores where agent_name = %s)"
        connection.execute(f"update {mart} set agent_id_hash = %s where {of_agent}", [new_hash, agent])
    for mart in ("fct_capacity_scores", "fct_capacity_alerts"):
        query = f"update {mart} set agent_name = %s, agent_id_hash = %s where agent_name = %s"
        connection.execute(query, [name, new_hash, agent])


def table(connection: psycopg.Connection, **options: Any) -> list[str]:
    """Return the lines of the table for the window of 7 days."""
    return fleet_table(connection, MARTS, AS_OF, 7, **options).splitlines()


def test_agents_that_are_not_in_the_table_are_counted(marts):
    assert "... and 11 more agents that need less attention." in table(marts, most=3)
    marts.execute("delete from fct_capacity_scores")
    assert table(marts) == ["No agent has a row at 2026-06-15T00:00:00Z: the fleet table is empty."]


@pytest.mark.parametrize(("columns", "is_beside"), [("80", False), ("", True), ("200", True)])
def test_the_table_fits_the_terminal(marts, monkeypatch, columns, is_beside):
    """Without a terminal the table is at most 120 characters wide. In a narrow one the cause is below the agent."""
    rename(marts, "Sprout", "An agent with a name that goes on and on and never ends", "e" * 64)
    monkeypatch.setenv("COLUMNS", columns)
    lines = table(marts)
    assert max(map(width, lines)) <= int(columns or 120)
    [heading] = [line for line in lines if line.startswith("agent ")]
    assert heading.split() == ["agent", "capacity", "score", "category", "verdict", *["why"] * is_beside]
    [row] = [number for number, line in enumerate(lines) if line.startswith("Mire ")]
    assert re.match(r"Mire \(744f8580\) +0\.072 \[0\.04, 0\.09\] +High Fragility +suspend ?", lines[row])
    cause = lines[row][lines[row].index("suspend") + 10 :] if is_beside else lines[row + 1]
    assert cause.strip().startswith("Stuck in a fragile episode (rigidity)")


def test_agents_with_equal_names_and_hash_beginnings_are_distinguished(marts):
    rename(marts, "Link", "Scout", "3f764637717ba9ec")
    rename(marts, "Fable", "Scout", "3f764637aaaaaaaa")
    rename(marts, "Echo", "Other", "3f764637bbbbbbbb")
    agents = {line.split("  ")[0] for line in table(marts)}
    assert {"Scout (3f764637717ba9ec)", "Scout (3f764637aaaaaaaa)", "Other (3f764637)"} <= agents


HOSTILE_NAMES = [
    "\x1b[31mred\x9b31m\x7f",
    "two\nlines\r\u2028three",
    "\u202egnirts\u3164zero\u200bwidth\ufeff",
    "探索者" * 9,
    "👩\u200d👩\u200d👧 family",
    "e" + "\u0301" * 99,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_names_and_hashes_do_not_shift_columns(marts, name):
    rename(marts, "Hush", name, name)
    lines = table(marts)
    verdicts = [re.search("  (verdict|review|withhold|suspend|wait|grant) ", line) for line in lines if line[:1] != " "]
    starts = [wcwidth.wcswidth(found.string[: found.start()]) for found in verdicts if found]
    assert len(starts) == 15 and len(set(starts)) == 1
    marts.execute("delete from fct_capacity_scores where agent_id_hash = %s", [name])
    assert all(line.isprintable() for line in (*lines, *table(marts)))


def test_alerts_say_since_when_they_are_raised_and_which_are_new(sample_copy: Database):
    newest = json.loads(succeeded(command(sample_copy, "alerts", "--json")).stdout)
    rows = [*newest["alerts"], *newest["red_flags"]]
    for day in {row["since"] for row in rows if row["since"]} | {newest["as_of"]}:
        said = succeeded(command(sample_copy, "alerts", "--as-of", day)).stdout
        found = json.loads(command(sample_copy, "alerts", "--as-of", day, "--json").stdout)
        since = [one["since"] for one in (*found["alerts"], *found["red_flags"])]
        ages = re.findall(r"  (new|ongoing|since [0-9-]{10})$", said, re.MULTILINE)
        expected = ["new" if one == day else f"since {one[:10]}" if one else "ongoing" for one in since]
        assert sorted(ages) == sorted(expected) and f", {ages.count('new')} new\n" in said
    table = csv.DictReader(command(sample_copy, "alerts", "--csv").stdout.splitlines())
    assert [row["since"] for row in table] == [row["since"] or "" for row in rows]


def test_json_and_csv_exclude_each_other(scored_sample: Database):
    for name in ("fleet", "alerts"):
        refusal = command(scored_sample, name, "--json", "--csv")
        assert refusal.exit_code == 2 and "--json and --csv cannot be given together" in refusal.stderr
