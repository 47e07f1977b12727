"""The fleet table: what it shows, and that it stays a table with any name in it."""

from datetime import UTC, datetime

import pytest
import wcwidth

from ciris_scoring.basics.relations import Place, Relations
from ciris_scoring.basics.terminal import aligned, fitted, printable, width
from ciris_scoring.show.fleet_table import AGENT_WIDTH, MAX_ROWS, fleet_tables, shown_label

AS_OF = datetime(2026, 6, 15, tzinfo=UTC)

CREATE_MARTS = """
create schema marts;
create table marts.fct_capacity_scores (
    agent_id_hash text, agent_name text, as_of timestamptz, window_days integer, c_score float8, i_int_score float8,
    r_score float8, i_inc_score float8, s_score float8, capacity_score float8, category text, score_status text,
    weakest_factor text, capacity_score_low float8, capacity_score_high float8
);
create table marts.fct_capacity_alerts (
    agent_id_hash text, agent_name text, as_of timestamptz, window_days integer, kind text, severity text,
    message text
);
create table marts.fct_record_signs (
    agent_id_hash text, as_of timestamptz, window_days integer, sign text, field text
);
"""


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        connection.execute(CREATE_MARTS)
        yield connection


PUBLISHED = Relations(
    "marts",
    {
        name: Place("marts", name)
        for name in ("fct_capacity_scores", "fct_capacity_alerts", "fct_record_signs")
    },
)


def add_score(connection, agent, name, capacity, window_days=7, as_of=AS_OF, limits=(None, None)):
    category, status = ("healthy", "final") if capacity is not None else (None, "insufficient_data")
    connection.execute(
        "insert into marts.fct_capacity_scores"
        " values (%s, %s, %s, %s, 1, 0.95, 0.9, 0.85, 0.75, %s, %s, %s, 'S', %s, %s)",
        [agent, name, as_of, window_days, capacity, category, status, *limits],
    )


def add_alert(connection, agent, name, kind, severity="critical", window_days=7):
    connection.execute(
        "insert into marts.fct_capacity_alerts values (%s, %s, %s, %s, %s, %s, 'What it says.')",
        [agent, name, AS_OF, window_days, kind, severity],
    )


def test_the_lowest_capacity_comes_first_and_no_score_last(connection):
    add_score(connection, "aaaaaaaa11", "New", None)
    add_score(connection, "bbbbbbbb22", "Good", 0.8)
    add_score(connection, "cccccccc33", None, 0.29, limits=(0.05, 0.999))
    add_alert(connection, "cccccccc33", None, "falling", "warning")
    add_alert(connection, "cccccccc33", None, "low_capacity")
    add_alert(connection, "cccccccc33", None, "silent", "warning")
    assert fleet_tables(connection, PUBLISHED, AS_OF).splitlines() == [
        "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 3 agents",
        "",
        "agent                C  I_int      R  I_inc      S  capacity            category  status             weakest"
        "  alerts",
        "---------------  -----  -----  -----  -----  -----  ------------------  --------  -----------------  -------"
        "  ----------------",
        "(cccccccc)       1.000  0.950  0.900  0.850  0.750  0.290 [0.05, 0.99]  healthy   final              S"
        "        low_capacity, +2",
        "Good (bbbbbbbb)  1.000  0.950  0.900  0.850  0.750  0.800               healthy   final              S",
        "New (aaaaaaaa)   1.000  0.950  0.900  0.850  0.750  -                   -         insufficient_data  S",
    ]


def test_signs_of_a_polished_record_have_a_column_where_there_are_any(connection):
    add_score(connection, "aaaaaaaa", "Plain", 0.7)
    add_score(connection, "bbbbbbbb", "Shiny", 0.8)
    add_score(connection, "bbbbbbbb", "Shiny", 0.8, window_days=30)
    signs = [("unreported", "action_success"), ("unreported", "coherence_passed"), ("new_identity", None)]
    for sign, field in [*signs, ("shared_key", None)]:
        connection.execute(
            "insert into marts.fct_record_signs values ('bbbbbbbb', %s, 7, %s, %s)", [AS_OF, sign, field]
        )
    seven, thirty = fleet_tables(connection, PUBLISHED, AS_OF).split("\n\nFleet")
    headings, _, plain, shiny = seven.splitlines()[2:]
    assert headings.endswith("alerts  signs")
    assert plain.rstrip().endswith("S")
    assert shiny.endswith("new_identity, +2")
    assert "signs" not in thirty


def test_a_score_and_its_limits_are_cut_and_not_rounded(connection):
    add_score(connection, "aaaaaaaa", "Near", 0.8499999, limits=(0.29999, 0.999999))
    add_score(connection, "bbbbbbbb", "Exact", 0.29, limits=(0.0, 1.0))
    connection.execute("update marts.fct_capacity_scores set r_score = 0.9209 where agent_name = 'Exact'")
    tables = fleet_tables(connection, PUBLISHED, AS_OF)
    assert "0.849 [0.29, 0.99]" in tables and "0.290 [0.00, 1.00]" in tables and "0.920" in tables


def test_one_table_per_window_at_the_as_of_only(connection):
    add_score(connection, "aaaaaaaa", "Old", 0.5, as_of=datetime(2026, 6, 14, tzinfo=UTC))
    add_score(connection, "bbbbbbbb", "Now", 0.5, window_days=30)
    add_score(connection, "bbbbbbbb", "Now", 0.5, window_days=7)
    tables = fleet_tables(connection, PUBLISHED, AS_OF)
    assert [line for line in tables.splitlines() if line.startswith("Fleet")] == [
        "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 1 agents",
        "Fleet at 2026-06-15T00:00:00Z, window of 30 days, 1 agents",
    ]
    assert "Old" not in tables


def test_an_alert_for_an_agent_without_a_row_is_not_lost(connection):
    add_alert(connection, "dddddddd44", "Hush", "silent", "warning")
    tables = fleet_tables(connection, PUBLISHED, AS_OF)
    assert "No agent has a trace in this window." in tables
    assert "silent: Hush (dddddddd), without a score in this window. What it says." in tables


def test_an_empty_fleet_is_said_in_a_line(connection):
    assert fleet_tables(connection, PUBLISHED, AS_OF) == (
        "No agent has a trace in a scoring window at 2026-06-15T00:00:00Z: the fleet table is empty."
    )


def test_a_large_fleet_shows_the_lowest_and_counts_the_rest(connection):
    for i in range(MAX_ROWS + 3):
        add_score(connection, f"{i:08d}", f"Agent {i}", i / 100)
    lines = fleet_tables(connection, PUBLISHED, AS_OF).splitlines()
    assert len(lines) == 4 + MAX_ROWS + 1
    assert lines[-1] == "... and 3 more agents with a higher capacity or none."


def test_the_table_is_at_most_140_columns_wide(connection):
    add_score(connection, "e" * 64, "An agent with a name that goes on and on and never ends", None)
    add_score(connection, "f" * 64, "Another", 0.5, limits=(0.4, 0.6))
    for kind in ("low_capacity", "broken_chain", "falling", "silent"):
        add_alert(connection, "e" * 64, None, kind)
    connection.execute(
        "update marts.fct_capacity_scores set category = 'high_fragility', weakest_factor = 'I_int'"
    )
    widths = {width(line) for line in fleet_tables(connection, PUBLISHED, AS_OF).splitlines()}
    assert 120 <= max(widths) <= 140


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Scout", "Scout (3f764637)"),
        (None, "(3f764637)"),
        ("An agent with a long name", "An agent… (3f764637)"),
        ("探索者探索者探索者探索者", "探索者探… (3f764637)"),
        ("a\tb\x1b[31mc", "a�b�[31mc (3f764637)"),
    ],
)
def test_an_agent_is_named_within_its_column(name, shown):
    assert shown_label({"agent_name": name, "agent_id_hash": "3f764637717ba9ec"}) == shown
    assert width(shown) <= AGENT_WIDTH


def test_agents_alike_in_name_and_hash_are_told_apart(connection):
    add_score(connection, "3f764637717ba9ec", "Scout", 0.5)
    add_score(connection, "3f764637aaaaaaaa", "Scout", 0.6)
    add_score(connection, "3f764637bbbbbbbb", "Other", 0.7)
    agents = [line.split("  ")[0] for line in fleet_tables(connection, PUBLISHED, AS_OF).splitlines()[4:]]
    assert agents == ["(3f764637717ba9ec)", "(3f764637aaaaaaaa)", "Other (3f764637)"]


def test_columns_stay_aligned_with_wide_and_combining_characters():
    lines = aligned(
        ("agent", "n"), [("探索", "1"), ("e\N{COMBINING ACUTE ACCENT}", "22"), ("plain", "333")], {"n"}
    )
    assert {width(line) for line in lines} == {len("agent") + 2 + 3}


def test_text_that_fits_is_left_alone():
    assert fitted("exactly", 7) == "exactly"
    assert fitted("exactly", 6) == "exact…"
    assert printable("Ægir's “🜚”") == "Ægir's “🜚”"


HOSTILE_NAMES = [
    "\x1b[2J\x1b[31mred",
    "two\nlines\r\u2028three",
    "\u202egnirts\u202c\u200f",
    "\u3164zero\u200bwidth\u2060\ufeff",
    "探索者" * 9,
    "👩\u200d👩\u200d👧 family",
    "e" + "\u0301" * 99,
    "\x9b31m\x00".replace("\x00", "\x7f"),
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_no_name_or_hash_moves_the_table(connection, name):
    add_score(connection, "aaaaaaaa11", "Plain", 0.5)
    plain = fleet_tables(connection, PUBLISHED, AS_OF).splitlines()
    add_score(connection, name, name, 0.9)
    add_alert(connection, name + "2", name, "silent")
    lines = fleet_tables(connection, PUBLISHED, AS_OF).splitlines()
    assert len(lines) == len(plain) + 2
    assert all(line.isprintable() for line in lines)
    starts = zip((lines[2], *lines[4:6]), ("I_int", "0.950", "0.950"), strict=True)
    assert len({wcwidth.wcswidth(line[: line.index(cell)]) for line, cell in starts}) == 1
