"""Tests of events that arrive after their trace was scored: the trace counts once, and the delay is reported.

In random fleets, events arrive again, late or out of order. A small independent model says what incremental runs
score and report as late. A backfill of the reported range must equal a full refresh.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from ciris_scoring.lab.embedded import SCHEMA, Server, write_profile
from ciris_scoring.lab.simulation.events import create_engine_tables, index_events
from command_line import invoke
from conftest import REPOSITORY, Database, fresh_database
from pipeline import score, table_differences

START = datetime(2026, 6, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
REFRESHED = "refreshed"
DETECTION = 300
"""Number of periods before the restatement window in which late events are counted; more than any fleet has."""
STEPS = (
    "THOUGHT_START", "SNAPSHOT_AND_CONTEXT", "DMA_RESULTS", "IDMA_RESULT", "ASPDMA_RESULT", "CONSCIENCE_RESULT",
    "ACTION_RESULT",
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """An event of a trace and the time at which it arrived."""

    agent: str | None
    trace_id: str
    step: str
    at: datetime
    arrived_at: datetime
    attempt: int = 0
    payload: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass
class Fleet:
    """Events of a fleet. Audit numbers of an agent follow the order of its outcomes."""

    rng: random.Random
    events: list[Event] = field(default_factory=list)
    numbers: Counter[str | None] = field(default_factory=Counter)

    def add(
        self,
        agent: str | None,
        trace_id: str,
        step: str,
        at: datetime,
        *,
        late: timedelta = timedelta(),
        attempt: int = 0,
    ) -> None:
        """Add an event.

        :param late: delay between the event and its arrival.
        """
        payload = self._payload(agent, step)
        self.events.append(Event(agent, trace_id, step, at, at + late, attempt, payload))

    def add_trace(
        self,
        agent: str | None,
        trace_id: str,
        at: datetime,
        *,
        outcome_at: datetime | None = None,
        without: tuple[str, ...] = (),
        late: timedelta = timedelta(),
    ) -> None:
        """Add the events of a trace, a second apart. The outcome can have another time."""
        for second, step in enumerate(STEPS):
            if step not in without:
                moment = (
                    outcome_at
                    if step == "ACTION_RESULT" and outcome_at
                    else at + second * timedelta(seconds=1)
                )
                self.add(agent, trace_id, step, moment, late=late)

    def _payload(self, agent: str | None, step: str) -> dict[str, Any]:
        rng = self.rng
        if step == "SNAPSHOT_AND_CONTEXT":
            return {"agent_name": rng.choice(["Kim"] * 9 + ["Lee"])}
        if step == "DMA_RESULTS":
            return {"csdma": {"plausibility_score": round(rng.random(), 2)}, "dsdma_domain_alignment": 0.8}
        if step == "IDMA_RESULT":
            return {
                "k_eff": 1.5,
                "fragility_flag": rng.random() < 0.3,
                "phase": rng.choice(["chaos", "healthy"]),
            }
        if step == "ASPDMA_RESULT":
            return {"selected_action": "SPEAK"}
        if step == "CONSCIENCE_RESULT":
            return {
                "conscience_passed": True, "action_was_overridden": rng.random() < 0.1, "coherence_passed": True,
                "entropy_level": round(rng.random(), 4), "coherence_level": round(rng.random(), 4),
            }  # fmt: skip
        if step == "ACTION_RESULT":
            self.numbers[agent] += 1
            return {
                "execution_success": rng.random() < 0.9, "audit_sequence_number": self.numbers[agent],
                "audit_entry_hash": "h",
            }  # fmt: skip
        return {"thought_type": "standard"}


def random_fleet(seed: int, days: int, period: timedelta, lookback: timedelta) -> Fleet:
    """Return a fleet in which a third of the traces get later events, within the restatement
    window or long after it.
    """
    rng = random.Random(seed)
    fleet = Fleet(rng)
    traces = sorted(
        (START + rng.random() * days * period, rng.choice("abc") * 16, number) for number in range(days * 8)
    )
    for at, agent, number in traces:
        trace_id = f"{number}"
        wait = rng.choice([timedelta(minutes=5), period, lookback * 0.7, lookback + period, lookback * 2.5])
        kind = rng.choice(
            ["whole"] * 10 + ["no outcome", "later outcome", "second outcome", "outcome first", "steps late",
                              "all late", "second step", "step of then", "outcome of then", "no outcome late",
                              "lower attempt"]
        )  # fmt: skip
        without = {
            "no outcome": ("ACTION_RESULT",), "no outcome late": ("ACTION_RESULT",),
            "outcome first": STEPS[:-1], "steps late": STEPS[:4], "outcome of then": ("ACTION_RESULT",),
        }.get(kind, ())  # fmt: skip
        fleet.add_trace(
            agent, trace_id, at,
            outcome_at=at + wait if kind == "later outcome" else None,
            without=without,
            late=wait if kind in ("all late", "no outcome late") else timedelta(),
        )  # fmt: skip
        if kind == "second outcome":
            for attempt in range(1, rng.choice([2, 2, 3])):
                fleet.add(agent, trace_id, "ACTION_RESULT", at + attempt * wait, attempt=attempt)
        elif kind == "lower attempt":
            fleet.add(agent, trace_id, "ACTION_RESULT", at - wait, late=2 * wait, attempt=1)
        elif kind == "second step":
            fleet.add(agent, trace_id, rng.choice(STEPS[:-1]), at + wait, attempt=1)
        elif kind == "step of then":
            fleet.add(agent, trace_id, "CONSCIENCE_RESULT", at + HOUR / 60, late=wait, attempt=1)
        elif kind == "outcome of then":
            fleet.add(agent, trace_id, "ACTION_RESULT", at + HOUR / 60, late=wait)
        elif kind in ("outcome first", "steps late"):
            for step in without:
                fleet.add(agent, trace_id, step, at - HOUR / 60, late=wait)
    return fleet


class Lens:
    """The event tables in a database, and a schema that is scored by consecutive runs."""

    def __init__(self, database: Database, folder: Path, period: timedelta = DAY) -> None:
        self.database, self.period = database, period
        self.cli_vars: dict[str, Any] = {"ciris_late_detection_periods": DETECTION}
        if period == HOUR:
            self.cli_vars["ciris_scoring_period"] = "hour"
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

    def run(self, as_of: datetime) -> None:
        score(self.profiles[SCHEMA], as_of, self.cli_vars)

    def differences(self, as_of: datetime) -> list[str]:
        """Score everything into another schema and return the differences from the incremental result."""
        score(self.profiles[REFRESHED], as_of, self.cli_vars)
        with self.database.connect() as connection:
            return table_differences(connection, SCHEMA, REFRESHED)

    def backfill(self, first: datetime, last: datetime) -> None:
        result = invoke(
            "run", "--profiles-dir", self.profiles[SCHEMA], "--project-dir", REPOSITORY, "--from", first.isoformat(),
            "--to", last.isoformat(), "--allow-rescoring", "--step-days", 90, "--vars", str(self.cli_vars),
        )  # fmt: skip
        assert result.exit_code == 0, result.output

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return connection.execute(query.format(schema=SCHEMA)).fetchall()

    def late(self) -> dict[tuple[str, str | None, datetime], tuple[int, datetime, datetime]]:
        rows = self.rows(
            "select issue, agent_id_hash, period_start, n, first_as_of, last_as_of from {schema}.fct_data_quality"
            " where issue in ('late_trace', 'late_outcome')"
        )
        return {row[:3]: row[3:] for row in rows}


@pytest.fixture
def lens(database: Database, tmp_path: Path) -> Lens:
    return Lens(database, tmp_path)


# --- independent model of incremental runs ---------------------------------------------------------------------------

Key = tuple[str | None, str]


@dataclass
class Expected:
    """Time and number of events of each scored trace, and the traces that are late at the end."""

    scored: dict[Key, tuple[datetime, int]] = field(default_factory=dict)
    late: dict[tuple[str, str | None, datetime], tuple[int, datetime, datetime]] = field(default_factory=dict)


def head_and_number(events: list[Event]) -> tuple[datetime, int]:
    outcomes = [event for event in events if event.step == "ACTION_RESULT"]
    head = max(outcomes, key=lambda e: (e.attempt, e.at)) if outcomes else max(events, key=lambda e: e.at)
    return head.at, len(events)


def expected(fleet: Fleet, as_ofs: list[datetime], period: timedelta, lookback: timedelta) -> Expected:
    found = Expected()
    for number, as_of in enumerate(as_ofs):
        final_until = (
            min(as_ofs[number - 1], as_of) - lookback if number else datetime.min.replace(tzinfo=UTC)
        )
        by_trace: dict[Key, list[Event]] = {}
        for event in fleet.events:
            if event.arrived_at < as_of:
                by_trace.setdefault((event.agent, event.trace_id), []).append(event)
        late: list[tuple[str, Key, datetime, datetime]] = []  # time as scored and current time
        for key, events in by_trace.items():
            at, n_events = head_and_number(events)
            if key in found.scored and found.scored[key][0] < final_until:
                scored_at, n_scored = found.scored[key]
                last_event_at = max(event.at for event in events)
                if (scored_at, n_scored) != (
                    at,
                    n_events,
                ) and last_event_at + DETECTION * period >= final_until:
                    late.append(("late_outcome", key, scored_at, at))
            elif final_until <= at < as_of:
                found.scored[key] = (at, n_events)
            else:
                found.scored.pop(key, None)
                if final_until <= at + DETECTION * period and at < final_until:
                    late.append(("late_trace", key, at, at))
        found.late = {}
        for issue, (agent, _), *times in late:
            scored_in, present_in = (at - (at - START) % period for at in times)
            place = issue, agent, scored_in
            n, first_as_of, last_as_of = found.late.get(place, (0, as_of, START))
            first_as_of = min(first_as_of, scored_in + period, present_in + period)
            last_as_of = min(max(last_as_of, scored_in + 60 * DAY, present_in + 60 * DAY), as_of)
            found.late[place] = (n + 1, first_as_of, last_as_of)
    return found


def scored(lens: Lens) -> Counter[tuple[Key, tuple[datetime, int]]]:
    rows = lens.rows(
        "select agent_id_hash, trace_id, traced_at, n_events"
        " from {schema}_intermediate.int_trace_checks where is_counted"
    )
    return Counter(((agent, trace_id), (at, n)) for agent, trace_id, at, n in rows)


def play(lens: Lens, fleet: Fleet, as_ofs: list[datetime], lookback: timedelta) -> Iterator[str]:
    """Yield the differences from the model after each run and after a backfill of the late traces."""
    received: set[int] = set()
    for number, as_of in enumerate(as_ofs, 1):
        new = [i for i, event in enumerate(fleet.events) if i not in received and event.arrived_at < as_of]
        lens.receive([fleet.events[i] for i in sorted(new, key=lambda i: fleet.events[i].arrived_at)])
        received.update(new)
        lens.run(as_of)
        model = expected(fleet, as_ofs[:number], lens.period, lookback)
        if scored(lens) != Counter(model.scored.items()):
            yield f"run {number}: scored {scored(lens) - Counter(model.scored.items())} more"
            yield f"run {number}: scored {Counter(model.scored.items()) - scored(lens)} less"
        if lens.late() != model.late:
            yield f"run {number}: late {set(lens.late().items()) ^ set(model.late.items())}"
    if late := lens.late().values():
        lens.backfill(min(first for _, first, _ in late), as_ofs[-1])
        if lens.late():
            yield f"late after the backfill: {lens.late()}"
    yield from lens.differences(as_ofs[-1])


BY_DAY = [START + n * DAY for n in (3, 5, 6, 10, 10, 12)]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_late_events_by_day_match_the_model(lens: Lens, seed: int) -> None:
    fleet = random_fleet(seed, 12, DAY, 3 * DAY)
    assert list(play(lens, fleet, BY_DAY, 3 * DAY)) == []
    kinds = Counter(issue for issue, *_ in expected(fleet, BY_DAY, DAY, 3 * DAY).late)
    assert min(kinds["late_outcome"], kinds["late_trace"]) > 0


def test_random_late_events_by_hour_match_the_model(database: Database, tmp_path: Path) -> None:
    lens = Lens(database, tmp_path, HOUR)
    as_ofs = [START + n * HOUR for n in (30, 60, 85, 120, 133)]
    assert list(play(lens, random_fleet(3, 133, HOUR, 48 * HOUR), as_ofs, 48 * HOUR)) == []


def test_random_events_within_lookback_need_no_backfill(lens: Lens) -> None:
    fleet = random_fleet(4, 8, DAY, DAY)
    as_ofs = [START + n * DAY for n in (4, 5, 6, 7, 8)]
    # The first run must not have late events.
    late = {event for event in fleet.events if event.arrived_at - event.at > 2 * DAY}
    first = {}
    for event in fleet.events:
        first[event.agent, event.trace_id] = min(event.at, first.get((event.agent, event.trace_id), event.at))
    fleet.events = [
        e for e in fleet.events if e not in late and e.arrived_at - first[e.agent, e.trace_id] < 2 * DAY
    ]
    assert list(play(lens, fleet, as_ofs, 3 * DAY)) == []
    assert lens.late() == {}


# --- computed by hand ------------------------------------------------------------------------------------------------

A, B = "a" * 16, "b" * 16
RUNS = [START + n * DAY for n in (3, 7, 9)]
"""As-ofs of the runs. At the last one, the first four days are final."""


def run_by_run(lens: Lens, fleet: Fleet, as_ofs: list[datetime]) -> None:
    received = 0
    by_arrival = sorted(fleet.events, key=lambda event: event.arrived_at)
    for as_of in as_ofs:
        due = [event for event in by_arrival if event.arrived_at < as_of]
        lens.receive(due[received:])
        received = len(due)
        lens.run(as_of)


def wrong_by_hand(lens: Lens) -> Iterator[str]:
    """Four traces a day. On day 8, traces of day 2 get an outcome, a second outcome and another step."""
    fleet = Fleet(random.Random(5))
    for quarter in range(4 * 9):
        at = START + quarter * DAY / 4
        if quarter == 5:
            fleet.add_trace(A, "5", at, without=("ACTION_RESULT",))
        else:
            fleet.add_trace(A, f"{quarter}", at)
        if quarter == 30:
            fleet.add(A, "5", "ACTION_RESULT", at + HOUR)
            fleet.add(A, "6", "ACTION_RESULT", at + 2 * HOUR, attempt=1)
            fleet.add(A, "7", "CONSCIENCE_RESULT", at + 3 * HOUR, attempt=1)
    run_by_run(lens, fleet, RUNS)
    counts = (
        "select n_traces, n_chain_gaps from {schema}_intermediate.int_windows where window_days = 30"
        " order by as_of desc limit 1"
    )
    if (found := lens.rows(counts)) != [(36, 0)]:
        yield f"traces and gaps: {found}"
    if (late := lens.late()) != {("late_outcome", A, START + DAY): (3, START + 2 * DAY, RUNS[-1])}:
        yield f"late: {late}"
    logged = "select n_late_traces from {schema}.fct_scoring_runs order by started_at desc limit 1"
    if (found := lens.rows(logged)) != [(3,)]:
        yield f"logged as late: {found}"
    lens.backfill(START + 2 * DAY, RUNS[-1])
    if late := lens.late():
        yield f"late after the backfill: {late}"
    yield from lens.differences(RUNS[-1])


def test_late_outcome_counts_once_and_is_reported(lens: Lens) -> None:
    assert list(wrong_by_hand(lens)) == []


def test_outcome_after_seventy_days_changes_the_scores_since_the_steps(lens: Lens) -> None:
    """The newest score includes the trace only at its new time."""
    fleet = Fleet(random.Random(7))
    fleet.add_trace(A, "slow", START + DAY, outcome_at=START + 71 * DAY)
    fleet.add_trace(A, "quick", START + 5 * DAY)
    as_ofs = [*RUNS[:2], START + 72 * DAY]
    run_by_run(lens, fleet, as_ofs)
    assert lens.late() == {("late_outcome", A, START + DAY): (1, START + 2 * DAY, as_ofs[-1])}


def test_issues_of_events_that_come_later_are_those_of_a_full_refresh(lens: Lens) -> None:
    """Traces with a trace_id of two agents, with and without final scores, and traces without an agent or with a long
    id."""
    fleet = Fleet(random.Random(6))
    for day in range(9):
        fleet.add_trace(A, f"of a {day}", START + day * DAY)
    for trace_id, day in (("shared within the lookback", 5), ("shared later", 7.5)):
        fleet.add_trace(A, trace_id, START + (day - 4) * DAY)
        fleet.add_trace(B, trace_id, START + day * DAY)
    fleet.add_trace(None, "nobody's", START + DAY, outcome_at=START + 7.5 * DAY)
    fleet.add_trace(None, "x" * 600, START + DAY)
    fleet.add_trace("y" * 600, "x" * 601, START + DAY)
    run_by_run(lens, fleet, RUNS)
    score(lens.profiles[REFRESHED], RUNS[-1])
    query = (
        "select agent_id_hash, issue, sum(n)::integer from {schema}.fct_data_quality"
        " where issue in ('trace_id_of_two_agents', 'blank_agent_id_hash', 'oversized_id') group by 1, 2"
    )
    counted = {
        (A, "trace_id_of_two_agents", 2), (B, "trace_id_of_two_agents", 2), (None, "blank_agent_id_hash", 2),
        (None, "oversized_id", 1),
    }  # fmt: skip
    assert set(lens.rows(query)) == set(lens.rows(query.replace("{schema}", REFRESHED))) == counted
    shared = (
        "select agent_id_hash, period_start, n from {schema}.fct_data_quality"
        " where issue = 'trace_id_of_two_agents'"
    )
    assert set(lens.rows(shared)) == set(lens.rows(shared.replace("{schema}", REFRESHED)))
    assert lens.late() == {}


def wrong(server: Server) -> Iterator[str]:
    """Yield the differences, for the mutation tests."""
    with tempfile.TemporaryDirectory() as folder, fresh_database(server, Path(folder)) as database:
        yield from wrong_by_hand(Lens(database, Path(folder)))
    with tempfile.TemporaryDirectory() as folder, fresh_database(server, Path(folder)) as database:
        yield from play(Lens(database, Path(folder)), random_fleet(1, 12, DAY, 3 * DAY), BY_DAY, 3 * DAY)
