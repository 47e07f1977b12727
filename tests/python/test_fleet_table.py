"""The fleet table: what it shows, and that it stays a table with any name in it."""

from datetime import UTC, datetime

import pytest

from ciris_scoring.fleet_table import (
    AGENT_WIDTH,
    MAX_ROWS,
    agent_label,
    aligned,
    fitted,
    fleet_tables,
    printable,
    width,
)

AS_OF = datetime(2026, 6, 15, tzinfo=UTC)

MARTS = """
create schema marts;
create table marts.fct_capacity_scores (
    agent_id_hash text, agent_name text, as_of timestamptz, window_days integer, c_score float8, i_int_score float8,
    r_score float8, i_inc_score float8, s_score float8, capacity_score float8, category text, score_status text,
    weakest_factor text
);
create table marts.fct_capacity_alerts (
    agent_id_hash text, agent_name text, as_of timestamptz, window_days integer, kind text, severity text,
    message text
);
"""


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        connection.execute(MARTS)
        yield connection


def add_score(connection, agent, name, capacity, window_days=7, as_of=AS_OF):
    category, status = ("healthy", "final") if capacity is not None else (None, "insufficient_data")
    connection.execute(
        "insert into marts.fct_capacity_scores values (%s, %s, %s, %s, 1, 0.95, 0.9, 0.85, 0.75, %s, %s, %s, 'S')",
        [agent, name, as_of, window_days, capacity, category, status],
    )


def add_alert(connection, agent, name, kind, severity="critical", window_days=7):
    connection.execute(
        "insert into marts.fct_capacity_alerts values (%s, %s, %s, %s, %s, %s, 'What it says.')",
        [agent, name, AS_OF, window_days, kind, severity],
    )


def test_the_lowest_capacity_comes_first_and_no_score_last(connection):
    add_score(connection, "aaaaaaaa11", "New", None)
    add_score(connection, "bbbbbbbb22", "Good", 0.8)
    add_score(connection, "cccccccc33", None, 0.3)
    add_alert(connection, "cccccccc33", None, "falling", "warning")
    add_alert(connection, "cccccccc33", None, "low_capacity")
    add_alert(connection, "cccccccc33", None, "silent", "warning")
    assert fleet_tables(connection, "marts", AS_OF).splitlines() == [
        "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 3 agents",
        "",
        "agent                C  I_int      R  I_inc      S  capacity  category  status             weakest  alerts",
        "---------------  -----  -----  -----  -----  -----  --------  --------  -----------------  -------"
        "  -------------------------",
        "(cccccccc)       1.000  0.950  0.900  0.850  0.750     0.300  healthy   final              S"
        "        low_capacity, falling, +1",
        "Good (bbbbbbbb)  1.000  0.950  0.900  0.850  0.750     0.800  healthy   final              S",
        "New (aaaaaaaa)   1.000  0.950  0.900  0.850  0.750         -  -         insufficient_data  S",
    ]


def test_one_table_per_window_at_the_as_of_only(connection):
    add_score(connection, "aaaaaaaa", "Old", 0.5, as_of=datetime(2026, 6, 14, tzinfo=UTC))
    add_score(connection, "bbbbbbbb", "Now", 0.5, window_days=30)
    add_score(connection, "bbbbbbbb", "Now", 0.5, window_days=7)
    tables = fleet_tables(connection, "marts", AS_OF)
    assert [line for line in tables.splitlines() if line.startswith("Fleet")] == [
        "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 1 agents",
        "Fleet at 2026-06-15T00:00:00Z, window of 30 days, 1 agents",
    ]
    assert "Old" not in tables


def test_an_alert_for_an_agent_without_a_row_is_not_lost(connection):
    add_alert(connection, "dddddddd44", "Hush", "silent", "warning")
    tables = fleet_tables(connection, "marts", AS_OF)
    assert "No agent has a trace in this window." in tables
    assert "silent: Hush (dddddddd), without a score in this window. What it says." in tables


def test_an_empty_fleet_is_said_in_a_line(connection):
    assert fleet_tables(connection, "marts", AS_OF) == (
        "No agent has a trace in a scoring window at 2026-06-15T00:00:00Z: the fleet table is empty."
    )


def test_a_large_fleet_shows_the_lowest_and_counts_the_rest(connection):
    for i in range(MAX_ROWS + 3):
        add_score(connection, f"{i:08d}", f"Agent {i}", i / 100)
    lines = fleet_tables(connection, "marts", AS_OF).splitlines()
    assert len(lines) == 4 + MAX_ROWS + 1
    assert lines[-1] == "... and 3 more agents with a higher capacity or none."


def test_the_table_is_at_most_140_columns_wide(connection):
    add_score(connection, "e" * 64, "An agent with a name that goes on and on and never ends", None)
    for kind in ("low_capacity", "broken_chain", "falling", "silent"):
        add_alert(connection, "e" * 64, None, kind)
    connection.execute(
        "update marts.fct_capacity_scores set category = 'high_fragility', weakest_factor = 'I_int'"
    )
    widths = {width(line) for line in fleet_tables(connection, "marts", AS_OF).splitlines()}
    assert 120 <= max(widths) <= 140


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Scout", "Scout (3f764637)"),
        (None, "(3f764637)"),
        ("", "(3f764637)"),
        ("An agent with a long name", "An agent wi… (3f764637)"),
        ("探索者探索者探索者探索者", "探索者探索… (3f764637)"),
        ("a\tb\x1b[31mc", "a�b�[31mc (3f764637)"),
    ],
)
def test_an_agent_is_named_within_its_column(name, label):
    assert agent_label(name, "3f764637717ba9ec") == label
    assert width(label) <= AGENT_WIDTH


def test_columns_stay_aligned_with_wide_and_combining_characters():
    lines = aligned(
        ("agent", "n"), [("探索", "1"), ("e\N{COMBINING ACUTE ACCENT}", "22"), ("plain", "333")], {"n"}
    )
    assert {width(line) for line in lines} == {len("agent") + 2 + 3}


def test_text_that_fits_is_left_alone():
    assert fitted("exactly", 7) == "exactly"
    assert fitted("exactly", 6) == "exact…"
    assert printable("Ægir's “🜚”") == "Ægir's “🜚”"
