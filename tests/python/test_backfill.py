"""Test of a backfill: the scores that change, and ranges that are refused."""

from __future__ import annotations

from datetime import datetime, timedelta

from click.testing import Result

from ciris_scoring.basics.as_of import text
from command_line import succeeded
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import insert_rows, load_rows, score, score_rows
from test_bad_input import refusal, run

DAY = timedelta(days=1)
LATE_FROM, LATE_UNTIL = START + 35 * DAY, START + 40 * DAY
FIRST = LATE_FROM + DAY  # first as-of that includes late traces
LAST = START + 45 * DAY
NEWEST = START + 60 * DAY


def backfill(database: Database, first: datetime, last: datetime, *options: str) -> Result:
    return run(database, "--from", text(first), "--to", text(last), *options, as_of=None)


def test_backfill_equals_full_refresh_in_its_range_and_changes_no_other_score(database: Database) -> None:
    """Traces arrive after their scores have become final."""
    fleet = nasty_fleet(21, agents=2, days=60, traces_per_day=2)
    traces = fleet.pop("covenant_traces")
    late = [row for row in traces if LATE_FROM <= row["timestamp"] < LATE_UNTIL][::2]
    with database.connect() as connection:
        load_rows(connection, fleet)
        insert_rows(connection, "covenant_traces", [row for row in traces if row not in late])
        score(database.profiles_dir, NEWEST)
        insert_rows(connection, "covenant_traces", late)

        before = score_rows(connection)
        refused = refusal(backfill(database, FIRST, LAST))
        assert "10 as-ofs of the range are published" in refused and "--allow-rescoring" in refused
        assert score_rows(connection) == before

        done = succeeded(backfill(database, FIRST, LAST, "--allow-rescoring"))
        # Two steps check the traces before the range, one scores the range, and one checks later traces.
        assert ": 4 steps." in done.output
        after = score_rows(connection)
        score(database.profiles_dir, NEWEST, full_refresh=True)
        refreshed = score_rows(connection)
        # As-ofs after the range keep their scores, although their windows contain late traces too.
        assert any(before[key] != row for key, row in refreshed.items() if key[1] > LAST)
        assert after == before | {key: row for key, row in refreshed.items() if FIRST <= key[1] <= LAST}

        gap = refusal(backfill(database, NEWEST + 2 * DAY, NEWEST + 3 * DAY, "--allow-rescoring"))
        assert "would leave a gap" in gap and text(NEWEST + DAY) in gap
        assert "range is empty" in refusal(backfill(database, LAST, FIRST, "--allow-rescoring"))
