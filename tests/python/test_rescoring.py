"""Test of ciris_rescore_from: the scores that change, and times that are refused."""

from __future__ import annotations

from datetime import timedelta

from ciris_scoring.database.as_of import text
from command_line import succeeded
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import insert_rows, load_rows, score, score_rows
from test_bad_input import refusal, run

DAY = timedelta(days=1)
LATE_FROM, LATE_UNTIL = START + 35 * DAY, START + 40 * DAY
FIRST = LATE_FROM + 3 * DAY
"""First as-of that is scored again. Late traces before it count in its windows."""
NEWEST = START + 60 * DAY


def again(moment: str) -> list[str]:
    return ["--vars", f"ciris_rescore_from: {moment}"]


def test_scores_from_a_time_on_equal_those_of_a_full_refresh(database: Database) -> None:
    """Traces arrive after their scores have become final. Earlier scores stay, and so does the limit of final ones."""
    fleet = nasty_fleet(21, agents=2, days=60, traces_per_day=2)
    traces = fleet.pop("covenant_traces")
    late = [row for row in traces if LATE_FROM <= row["timestamp"] < LATE_UNTIL][::2]
    with database.connect() as connection:
        load_rows(connection, fleet)
        insert_rows(connection, "covenant_traces", [row for row in traces if row not in late])
        score(database.profiles_dir, NEWEST)
        # A score is final only after a second run.
        score(database.profiles_dir, NEWEST)
        insert_rows(connection, "covenant_traces", late)

        before = score_rows(connection)
        refused = refusal(run(database, *again(text(FIRST)), as_of=text(NEWEST)))
        assert f"from {text(FIRST)} on again, but the scores" in refused and "--allow-rescoring" in refused
        after_now = refusal(run(database, *again(text(NEWEST + DAY)), "--allow-rescoring", as_of=text(NEWEST)))
        assert "ciris_rescore_from" in after_now and "is after the run's as-of" in after_now
        assert score_rows(connection) == before

        succeeded(run(database, *again(text(FIRST)), "--allow-rescoring", as_of=text(NEWEST)))
        after = score_rows(connection)
        score(database.profiles_dir, NEWEST, full_refresh=True)
        refreshed = score_rows(connection)
        assert any(before[key] != row for key, row in refreshed.items() if key[1] < FIRST)
        assert after == before | {key: row for key, row in refreshed.items() if key[1] >= FIRST}
