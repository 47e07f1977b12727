"""Test of events that arrive after the scores that use their trace are final. The trace counts once.

fct_data_quality reports the event. The expected numbers are computed by hand. test_healing.py has random events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from command_line import invoke, succeeded
from conftest import REPOSITORY, Database
from event_lens import create_engine_tables, insert_events
from pipeline import differences_from_refresh, score
from test_bad_input import dbt
from test_event_lens import WHOLE

START = datetime(2026, 6, 1, tzinfo=UTC)
Time = datetime | None
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)


class Lens:
    """A database with tables of events, and the events that have not arrived yet."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.events: list[tuple[datetime, tuple[Any, ...]]] = []
        """Time of arrival and row of each event."""
        self.numbers: Counter[str | None] = Counter()
        """Last audit number of each agent."""
        with database.connect() as connection:
            create_engine_tables(connection)
            connection.execute("insert into cirislens.accord_public_keys (key_id, public_key_base64) values ('k', '-')")

    def add(
        self, agent: str | None, trace_id: str, step: str, at: datetime, arrives_at: Time = None,
        attempt: int = 1,
    ) -> None:  # fmt: skip
        """Add an event. By default the event belongs to a second attempt and arrives when it happens."""
        payload = WHOLE[step]
        if step == "ACTION_RESULT":
            self.numbers[agent] += 1
            payload = payload | {"audit_sequence_number": self.numbers[agent]}
        self.events.append((arrives_at or at, (trace_id, step, attempt, at, agent, payload)))

    def add_trace(
        self, agent: str | None, trace_id: str, at: datetime, outcome_at: Time = None, has_outcome: bool = True,
        arrives_at: Time = None,
    ) -> None:  # fmt: skip
        """Add the events of a trace at intervals of a second. The outcome can have another time or be missing."""
        for second, step in enumerate(WHOLE):
            is_outcome = step == "ACTION_RESULT"
            if has_outcome or not is_outcome:
                moment = outcome_at if is_outcome and outcome_at else at + second * SECOND
                self.add(agent, trace_id, step, moment, arrives_at, attempt=0)

    def run(self, as_of: datetime) -> None:
        """Insert the events that arrive before the as-of, and score at the as-of."""
        with self.database.connect() as connection:
            insert_events(connection, [event for arrives_at, event in self.events if arrives_at < as_of])
        self.events = [event for event in self.events if event[0] >= as_of]
        score(self.database.profiles_dir, as_of, {"ciris_vanished_share": 1})  # the fleet has only a few traces

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.database.execute(query.format(schema=SCHEMA))


A, B, D, E = (letter * 16 for letter in "abde")
UNUSUAL_IDS = {"c" * 16: "x" * 600, "f" * 16: " "}
"""Oversized and blank trace_ids by agent."""
ISSUES = {
    (D, "trace_id_of_two_agents", 2),
    (E, "trace_id_of_two_agents", 2),
    (None, "blank_agent_id_hash", 2),
    (None, "oversized_id", 1),
}
RUNS = [START + n * DAY for n in (3, 7, 9)]
"""As-ofs of the runs. Before the last run, the scores of the first four days are final."""


def wrong(database: Database) -> Iterator[str]:
    """Yield the differences from the numbers computed by hand, after three runs and a rescore.

    Agent A has four traces a day, agent B has two traces in all. Before the last run, events arrive for traces whose
    scores are final: an outcome, a second outcome, or another step. A whole trace of these days arrives, too.
    """
    lens = Lens(database)
    lens.add_trace(B, "later", START + HOUR)
    lens.add_trace(B, "earlier", START + 3 * DAY + HOUR)
    for agent, trace_id in UNUSUAL_IDS.items():
        lens.add_trace(agent, trace_id, START + DAY + HOUR)
        lens.add_trace(agent, trace_id + " ", START + DAY + HOUR)
    for quarter in range(4 * 9):
        at = START + quarter * DAY / 4
        if quarter == 5:
            lens.add_trace(A, "5", at, has_outcome=False)
        else:
            lens.add_trace(A, f"{quarter}", at)
        if quarter == 30:
            lens.add(A, "5", "ACTION_RESULT", at + HOUR, attempt=0)
            lens.add(A, "6", "ACTION_RESULT", at + 2 * HOUR)
            lens.add(A, "7", "CONSCIENCE_RESULT", at + 3 * HOUR)
            lens.add(A, "8", "CONSCIENCE_RESULT", START + 2 * DAY + HOUR, arrives_at=at)
            lens.add(B, "later", "ACTION_RESULT", START + DAY + HOUR, arrives_at=at)
            lens.add(B, "earlier", "ACTION_RESULT", START + 2 * DAY + HOUR, arrives_at=at)
            lens.add_trace(A, "late", START + 1.5 * DAY, has_outcome=False, arrives_at=at)
            for agent, trace_id in UNUSUAL_IDS.items():
                lens.add(agent, trace_id, "ACTION_RESULT", at)
    # Agents D and E share two trace_ids. Three traces have no agent or an oversized id.
    for trace_id, day in (("shared within the lookback", 5), ("shared later", 7.5)):
        lens.add_trace(D, trace_id, START + (day - 4) * DAY)
        lens.add_trace(E, trace_id, START + day * DAY)
    lens.add_trace(None, "nobody's", START + DAY, outcome_at=START + 7.5 * DAY)
    lens.add_trace(None, "x" * 602, START + DAY)
    lens.add_trace("y" * 600, "x" * 601, START + DAY)
    for as_of in RUNS:
        lens.run(as_of)
    counts = (
        "select n_traces, n_chain_gaps from {schema}_intermediate.int_windows"
        f" where window_days = 30 and agent_id_hash = '{A}' order by as_of desc limit 1"
    )
    if (found := lens.rows(counts)) != [(36, 0)]:
        yield f"traces and gaps: {found}"
    expected = {
        ("late_outcome", A, START + DAY): (3, START + 2 * DAY, RUNS[-1]),
        ("late_outcome", A, START + 2 * DAY): (1, START + 3 * DAY, RUNS[-1]),
        ("late_outcome", B, START): (1, START + DAY, RUNS[-1]),
        ("late_outcome", B, START + 3 * DAY): (1, START + 3 * DAY, RUNS[-1]),
        ("late_trace", A, START + DAY): (1, START + 2 * DAY, RUNS[-1]),
        **{("late_outcome", agent, START + DAY): (1, START + 2 * DAY, RUNS[-1]) for agent in UNUSUAL_IDS},
    }
    late = (
        "select issue, agent_id_hash, period_start, n, first_as_of, last_as_of from {schema}.fct_data_quality"
        " where issue in ('late_trace', 'late_outcome')"
    )
    if (found := {row[:3]: row[3:] for row in lens.rows(late)}) != expected:
        yield f"late: {found}"
    issues = lens.rows(
        "select agent_id_hash, issue, sum(n)::integer from {schema}.fct_data_quality"
        " where issue in ('trace_id_of_two_agents', 'blank_agent_id_hash', 'oversized_id')"
        " and agent_id_hash not in ('cccccccccccccccc', 'ffffffffffffffff') is not false group by 1, 2"
    )
    if set(issues) != ISSUES:
        yield f"issues: {issues}"
    counted = (
        "select agent_id_hash, count(*) from {schema}_intermediate.int_trace_checks"
        " where is_counted and agent_id_hash = any(array['cccccccccccccccc', 'ffffffffffffffff']) group by 1"
    )
    if set(found := lens.rows(counted)) != {(agent, 2) for agent in UNUSUAL_IDS}:
        yield f"counted with an unusual trace_id: {found}"
    logged = "select n_late_traces from {schema}.fct_scoring_runs order by started_at desc limit 1"
    if (found := lens.rows(logged)) != [(9,)]:
        yield f"logged as late: {found}"
    again = {"ciris_rescore_from": (START + DAY).isoformat(), "ciris_allow_rescoring": True}
    result = invoke(
        "run", "--profiles-dir", database.profiles_dir, "--project-dir", REPOSITORY, "--as-of",
        RUNS[-1].isoformat(), "--vars", json.dumps(again),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    if found := lens.rows(late):
        yield f"late after the rescore: {found}"
    yield from differences_from_refresh(database, RUNS[-1])


@pytest.mark.slow
def test_late_outcome_counts_once_and_is_reported(database: Database) -> None:
    assert list(wrong(database)) == []


LATE = "select issue, agent_id_hash, period_start, n from {schema}.fct_data_quality where issue ~ '^late_' order by 1"
ASSEMBLED = f"{SCHEMA}_staging.stg_cirislens__event_traces"


def lens_with_late_arrivals(database: Database) -> Lens:
    """Return a lens whose agent A has a trace a day, scored on day 7. Then an outcome and a trace of day 1 arrive."""
    lens = Lens(database)
    for day in range(7):
        lens.add_trace(A, f"{day}", START + day * DAY + HOUR)
    lens.run(START + 7 * DAY)
    lens.add(A, "1", "ACTION_RESULT", START + DAY + 2 * HOUR, arrives_at=START + 7 * DAY)
    lens.add_trace(A, "late", START + DAY + 3 * HOUR, arrives_at=START + 7 * DAY)
    return lens


@pytest.mark.slow
def test_late_events_are_found_after_two_runs_that_died(database: Database) -> None:
    lens = lens_with_late_arrivals(database)
    with database.connect() as connection:
        insert_events(connection, [event for _, event in lens.events])
    lens.events = []
    as_of = START + 8 * DAY
    for _ in range(2):
        succeeded(dbt(database, "run", "--select", "int_scoring_run", variables={"ciris_as_of": as_of.isoformat()}))
    lens.run(as_of)
    expected = [("late_outcome", A, START + DAY, 1), ("late_trace", A, START + DAY, 1)]
    assert lens.rows(LATE) == expected
    lens.run(as_of + DAY)
    assert lens.rows(LATE) == expected


@pytest.mark.slow
def test_what_the_lens_erases_or_deletes_is_not_kept(database: Database) -> None:
    """No text of a payload is stored, no trace before the restatement window is kept, and a late trace that is deleted
    is not reported any more."""
    lens = lens_with_late_arrivals(database)
    lens.add_trace(A, "7", START + 7 * DAY + HOUR)
    lens.run(START + 8 * DAY)
    kept = f"select trace_id from {ASSEMBLED} order by 1"
    assert lens.rows(kept) == [("1",), ("4",), ("5",), ("6",), ("7",), ("late",)]
    [stored] = lens.rows(f"select string_agg(assembled::text, '') from {ASSEMBLED} as assembled")
    assert "standard" not in stored[0] and "Kim" in stored[0]
    database.execute("delete from cirislens.trace_events where trace_id in ('late', '2') returning 1")
    lens.run(START + 8 * DAY)
    assert lens.rows(kept) == [("1",), ("5",), ("6",), ("7",)]
    assert lens.rows(LATE) == [("late_outcome", A, START + DAY, 1)]
