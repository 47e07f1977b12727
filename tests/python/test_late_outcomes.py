"""Tests of events that arrive after their trace was scored, computed by hand: the trace counts once, and the delay is
reported. test_healing.py tests with random events that the reported range gives the scores of a full refresh.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from psycopg.types.json import Jsonb

from ciris_scoring.lab.embedded import SCHEMA, Server, write_profile
from ciris_scoring.lab.simulation.events import create_engine_tables, index_events
from command_line import invoke
from conftest import REPOSITORY, Database, fresh_database
from pipeline import score, table_differences
from test_event_lens import WHOLE

START = datetime(2026, 6, 1, tzinfo=UTC)
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
REFRESHED = "refreshed"


class Event(NamedTuple):
    """An event of a trace and the time at which it arrives."""

    agent: str | None
    trace_id: str
    step: str
    at: datetime
    arrives_at: datetime
    attempt: int
    payload: Mapping[str, Any]


class Fleet:
    """Events of a fleet. Audit numbers of an agent follow the order of its outcomes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.numbers: Counter[str | None] = Counter()

    def add(
        self,
        agent: str | None,
        trace_id: str,
        step: str,
        at: datetime,
        arrives_at: datetime | None = None,
        attempt: int = 1,
    ) -> None:
        """Add an event, by default of a second attempt."""
        payload = WHOLE[step]
        if step == "ACTION_RESULT":
            self.numbers[agent] += 1
            payload = payload | {"audit_sequence_number": self.numbers[agent]}
        self.events.append(Event(agent, trace_id, step, at, arrives_at or at, attempt, payload))

    def add_trace(
        self,
        agent: str | None,
        trace_id: str,
        at: datetime,
        outcome_at: datetime | None = None,
        has_outcome: bool = True,
        arrives_at: datetime | None = None,
    ) -> None:
        """Add the events of a trace, a second apart. The outcome can have another time."""
        for second, step in enumerate(WHOLE):
            is_outcome = step == "ACTION_RESULT"
            if has_outcome or not is_outcome:
                moment = outcome_at if is_outcome and outcome_at else at + second * SECOND
                self.add(agent, trace_id, step, moment, arrives_at, attempt=0)


class Lens:
    """The event tables in a database, and a schema that is scored by consecutive runs."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.profiles = {}
        for schema in (SCHEMA, REFRESHED):
            self.profiles[schema] = folder / schema
            self.profiles[schema].mkdir()
            write_profile(self.profiles[schema], database.server, database=database.name, schema=schema)
        with database.connect() as connection:
            create_engine_tables(connection)
            index_events(connection)
            connection.execute(
                "insert into cirislens.accord_public_keys (key_id, public_key_base64) values ('k', '-')"
            )

    def receive(self, events: list[Event]) -> None:
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.executemany(
                "insert into cirislens.trace_events (trace_id, thought_id, event_type, attempt_index, ts,"
                " agent_id_hash, trace_level, payload, signature, signing_key_id, signature_verified, schema_version)"
                " values (%s, 'th', %s, %s, %s, %s, 'detailed', %s, 's', 'k', true, '9.9.9')",
                [(e.trace_id, e.step, e.attempt, e.at, e.agent, Jsonb(e.payload)) for e in events],
            )

    def differences(self, as_of: datetime) -> list[str]:
        """Score everything into another schema and return the differences from the incremental result."""
        score(self.profiles[REFRESHED], as_of)
        with self.database.connect() as connection:
            return table_differences(connection, SCHEMA, REFRESHED)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return connection.execute(query.format(schema=SCHEMA)).fetchall()


@pytest.fixture
def lens(database: Database, tmp_path: Path) -> Lens:
    return Lens(database, tmp_path)


A, B, D, E = (letter * 16 for letter in "abde")
UNUSUAL_IDS = {"c" * 16: "x" * 600, "f" * 16: " "}
"""Agents with an oversized or a blank trace_id, and this trace_id."""
ISSUES = {
    (D, "trace_id_of_two_agents", 2),
    (E, "trace_id_of_two_agents", 2),
    (None, "blank_agent_id_hash", 2),
    (None, "oversized_id", 1),
}
RUNS = [START + n * DAY for n in (3, 7, 9)]
"""As-ofs of the runs. At the last one, the first four days are final."""


def wrong_by_hand(lens: Lens) -> Iterator[str]:
    """Four traces a day of A, and two of B. On day 8, traces of days 1 to 4, which are final, get an outcome, a second
    outcome or another step, dated then or now. A trace of day 2 arrives. Two agents have unusual ids.
    """
    fleet = Fleet()
    fleet.add_trace(B, "later", START + HOUR)
    fleet.add_trace(B, "earlier", START + 3 * DAY + HOUR)
    for agent, trace_id in UNUSUAL_IDS.items():
        fleet.add_trace(agent, trace_id, START + DAY + HOUR)
        fleet.add_trace(agent, trace_id + " ", START + DAY + HOUR)
    for quarter in range(4 * 9):
        at = START + quarter * DAY / 4
        if quarter == 5:
            fleet.add_trace(A, "5", at, has_outcome=False)
        else:
            fleet.add_trace(A, f"{quarter}", at)
        if quarter == 30:
            fleet.add(A, "5", "ACTION_RESULT", at + HOUR, attempt=0)
            fleet.add(A, "6", "ACTION_RESULT", at + 2 * HOUR)
            fleet.add(A, "7", "CONSCIENCE_RESULT", at + 3 * HOUR)
            fleet.add(A, "8", "CONSCIENCE_RESULT", START + 2 * DAY + HOUR, arrives_at=at)
            fleet.add(B, "later", "ACTION_RESULT", START + DAY + HOUR, arrives_at=at)
            fleet.add(B, "earlier", "ACTION_RESULT", START + 2 * DAY + HOUR, arrives_at=at)
            fleet.add_trace(A, "late", START + 1.5 * DAY, has_outcome=False, arrives_at=at)
            for agent, trace_id in UNUSUAL_IDS.items():
                fleet.add(agent, trace_id, "ACTION_RESULT", at)
    # Traces with a trace_id of two agents, and traces without an agent or with a long id.
    for trace_id, day in (("shared within the lookback", 5), ("shared later", 7.5)):
        fleet.add_trace(D, trace_id, START + (day - 4) * DAY)
        fleet.add_trace(E, trace_id, START + day * DAY)
    fleet.add_trace(None, "nobody's", START + DAY, outcome_at=START + 7.5 * DAY)
    fleet.add_trace(None, "x" * 602, START + DAY)
    fleet.add_trace("y" * 600, "x" * 601, START + DAY)
    received = 0
    by_arrival = sorted(fleet.events, key=lambda event: event.arrives_at)
    for as_of in RUNS:
        due = [event for event in by_arrival if event.arrives_at < as_of]
        lens.receive(due[received:])
        received = len(due)
        score(lens.profiles[SCHEMA], as_of)
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
    result = invoke(
        "run", "--profiles-dir", lens.profiles[SCHEMA], "--project-dir", REPOSITORY, "--from",
        (START + DAY).isoformat(), "--to", RUNS[-1].isoformat(), "--allow-rescoring", "--step-days", 90,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    if found := lens.rows(late):
        yield f"late after the backfill: {found}"
    yield from lens.differences(RUNS[-1])


def test_late_outcome_counts_once_and_is_reported(lens: Lens) -> None:
    assert list(wrong_by_hand(lens)) == []


def wrong(server: Server) -> Iterator[str]:
    """Yield the differences, for the mutation tests."""
    with tempfile.TemporaryDirectory() as folder, fresh_database(server, Path(folder)) as database:
        yield from wrong_by_hand(Lens(database, Path(folder)))
