"""Test of histories: data that arrives in any order, and runs that end in any way.

A step changes the sources or executes a command, which may fail or be killed at any statement that creates or writes a
table. A command must publish, or change no mart and name a command that works. At the end of a history, all tables must
equal those of a first run on the same sources.

`make test-all` has two short histories with steps of all kinds. If HISTORIES is set, this number of random histories
of at most STEPS steps is tested instead (`make soak`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ciris_scoring.database.connection import table_exists
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import PROGRAMS, Command, at
from conftest import fresh_database
from event_lens import AS_EVENTS, write_as_events
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows, table_differences, wait_until
from test_bad_input import dbt, marts, run
from test_gate import published

HISTORIES = int(os.environ.get("HISTORIES", "0"))
STEPS = int(os.environ.get("STEPS", "20"))
KEPT = "kept"
"""Name to which the schema of a history is renamed, while a first run builds the tables with which it is compared."""
PERIODS = {"day": (timedelta(days=1), 3), "hour": (timedelta(hours=1), 24)}
"""Length of a period, and number of periods of the restatement window."""
SOURCES = {"traces": ("covenant_traces", '"timestamp"'), "events": ("trace_events", "ts")}
"""Table of each source format, and its column of times."""
REFRESH = ("--full-refresh", "--allow-rescoring")
PARTS = ("int_scoring_run", "int_trace_checks", "int_windows+", "fct_capacity_scores", "int_runs")

# All rows wait in a table until they arrive. A fifth of the traces, and a tenth of all rows, arrive up to 2 days late,
# that is, within the restatement window. Another tenth of the rows are latecomers, which arrive only by the rule
# `late`. Rows of the future arrive on the eighth day.
WAIT = """
    create table public.waiting as
    select
        rows.*,
        abs(hashtext(rows::text)) % 10 = 0 as is_latecomer,
        least({at}, timestamptz '{last}') + case
            when abs(hashtext(trace_id)) % 5 = 0 or abs(hashtext(rows::text)) % 10 = 1
                then abs(hashtext(rows::text)) % 48 * interval '1 hour'
            else interval '0'
        end as arrives_at
    from cirislens.{table} as rows;
    truncate cirislens.covenant_traces, cirislens.{table}
    """

# Edits of a source row, by table.
EDITS = {
    "covenant_traces": (
        "signature_verified = signature_verified is not true",
        "action_success = action_success is not true, coherence_level = 0.61",
        "audit_sequence_number = audit_sequence_number + 1",
        '"timestamp" = "timestamp" + interval \'1 hour\'',
        "trace_id = 'other ' || trace_id",
        "agent_id_hash = (select max(agent_id_hash) from cirislens.covenant_traces)",
        "run_kind = case when run_kind = 'mock' then null else 'mock' end",
    ),
    "trace_events": (
        "signature_verified = not signature_verified",
        'payload = payload || \'{"execution_success": false, "coherence_level": 0.61}\'',
        "audit_sequence_number = audit_sequence_number + 1",
        "ts = ts + interval '1 hour'",
        "trace_id = 'other ' || trace_id",
        "payload = '{}'",
        "deployment_type = case when deployment_type = 'qa' then null else 'qa' end",
    ),
}

# Triggers that end a run at its nth statement that creates or writes a table. Either they raise an error, like a full
# disk, or they wait for a lock, so that the test can kill the run in the middle of the statement.
DIES = """
    create sequence public.statement;
    create function public.end_made() returns event_trigger language plpgsql as $$
    begin if nextval('public.statement') = {nth} then {how}; end if; end $$;
    create event trigger dies on ddl_command_end when tag in ('CREATE TABLE', 'CREATE TABLE AS')
        execute function public.end_made();
    create function public.end_written() returns trigger language plpgsql as $$
    begin if nextval('public.statement') = {nth} then {how}; end if; return null; end $$
    """
WRITING_DIES = """
    create trigger dies after insert or update or delete on {} for each statement
    execute function public.end_written()
    """
LIVES = """
    drop event trigger if exists dies;
    drop function if exists public.end_made, public.end_written cascade;
    drop sequence if exists public.statement;
    """
LOCK = 4711
WAITS = f"select 1 from pg_locks where locktype = 'advisory' and objid = {LOCK} and not granted"
SESSIONS = """
    select 1 from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> all(%s)
    """
KILLED = "killed"
HOW = {"fails": "raise exception 'the disk is full'", "is killed": f"perform pg_advisory_xact_lock({LOCK})"}
Death = tuple[str, int] | None
DEATHS = st.none() | st.tuples(st.sampled_from(sorted(HOW)), st.integers(1, 70))
PLACES = st.integers(0, 999)
"""Numbers by which a step selects a row."""


class Healing(RuleBasedStateMachine):
    """A database with a random fleet, whose rows arrive over time.

    :param threads: number of threads of dbt. With one thread, the order of the statements is always the same.
    """

    def __init__(self, server: Server, threads: int) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.database = self.stack.enter_context(fresh_database(server, folder))
        profile = self.database.profiles_dir / "profiles.yml"
        profile.write_text(profile.read_text().replace("threads: 4", f"threads: {threads}"))
        self.is_sound, self.has_died = True, False
        self.has_built = self.has_late_data = self.has_changed_key = False
        self.advice = ""
        """First as-of that the last run recommended to score again because of late data."""

    # --- steps that change the sources -------------------------------------------------------------------------------

    @initialize(source=st.sampled_from(sorted(SOURCES)), period=st.sampled_from(sorted(PERIODS)))
    def begin(self, source: str, period: str) -> None:
        """Create a fleet whose first days have arrived."""
        self.table, self.at = SOURCES[source]
        self.source = f"cirislens.{self.table}"
        self.period, self.lookback = PERIODS[period]
        self.now = START + timedelta(days=5)
        self.variables: dict[str, Any] = {
            "ciris_scoring_period": period,
            "ciris_late_detection_periods": 300,
            "ciris_vanished_share": 1,
            **(AS_EVENTS if source == "events" else {}),
        }
        with self.database.connect() as connection:
            load_rows(connection, nasty_fleet(3, agents=3, days=12, traces_per_day=5))
            if source == "events":
                write_as_events(connection)
            connection.execute(WAIT.format(table=self.table, at=self.at, last=START + timedelta(days=8)))
            columns = connection.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0"
                " and not attisdropped and attname <> 'event_id'",
                [self.source],
            )
            self.columns = [f'"{name}"' for (name,) in columns]
        self.arrive(1)

    def receive(self, condition: str) -> None:
        columns = ", ".join(self.columns)
        self.database.execute(
            f"with arrived as (delete from public.waiting where {condition} returning *)"
            f" insert into {self.source} ({columns}) select {columns} from arrived order by arrives_at, {self.at}"
        )

    def one_row(self, table: str, condition: str, place: int) -> str:
        """Return a condition that selects one row, by its place among the rows that meet a given condition."""
        return (
            f"ctid = (select (array_agg(ctid order by {self.at}, rows::text))[1 + {place} % nullif(count(*), 0)]"
            f" from {table} as rows where {condition})"
        )

    def in_window(self) -> str:
        """Return a condition that selects the rows that the next run checks again. The events of a trace are selected
        only if all of them are checked again."""
        until = self.final_until()
        begin = "-infinity" if until is None else until.isoformat()
        condition = f"{self.at} >= '{begin}'"
        if self.table == "trace_events":
            condition += f" and trace_id not in (select trace_id from {self.source} where ts < '{begin}')"
        return condition

    def final_until(self) -> datetime | None:
        newest, _ = self.publication()
        return newest and newest - self.lookback * self.period

    def publication(self) -> tuple[datetime | None, datetime | None]:
        """Return the newest as-of and the time of the last publication, or None for both."""
        query = (
            f"select newest_as_of, published_at from {SCHEMA}_intermediate.int_runs"
            " where published_at is not null order by published_at desc limit 1"
        )
        with self.database.connect() as connection:
            is_there = table_exists(connection, f"{SCHEMA}_intermediate", "int_runs")
            newest, at = (connection.execute(query).fetchone() if is_there else None) or (None, None)
        return newest, at

    @rule(periods=st.integers(1, 2))
    def arrive(self, periods: int) -> None:
        """Let time pass."""
        self.now += periods * self.period * (1 if self.lookback == 3 else 9)
        self.receive(f"not is_latecomer and arrives_at < '{self.now}'")

    # The rules have no preconditions. Preconditions would depend on how a run ended. Two executions of the same history
    # can end differently, because dbt's threads create the tables in any order. Hypothesis refuses such histories.

    @rule(place=PLACES)
    def late(self, place: int) -> None:
        self.receive(self.one_row("public.waiting", f"is_latecomer and {self.at} < '{self.now}'", place))
        self.late_data_came()

    @rule(place=PLACES, periods=st.integers(0, 5))
    def again(self, place: int, periods: int) -> None:
        """A trace is sent again, or an event has another attempt, at the same time or later."""
        moment = f"least({self.at} + {periods} * interval '{self.period}', '{self.now - self.period / 2}')"
        changed = {self.at: moment, '"attempt_index"': "attempt_index + 1", '"signature"': "'again'"}
        columns = ", ".join(self.columns)
        values = ", ".join(changed.get(column.replace('"ts"', "ts"), column) for column in self.columns)
        row = self.one_row(self.source, f"{self.at} < '{self.now - self.period}'", place)
        self.database.execute(f"insert into {self.source} ({columns}) select {values} from {self.source} where {row}")
        self.late_data_came()

    def late_data_came(self) -> None:
        self.has_late_data, self.advice = self.final_until() is not None, ""

    @rule(place=PLACES, kind=st.integers(0, 5))
    def edit(self, place: int, kind: int) -> None:
        row = self.one_row(self.source, self.in_window(), place)
        self.database.execute(f"update {self.source} set {EDITS[self.table][kind]} where {row}")

    @rule(place=PLACES, whole_period=st.booleans())
    def delete(self, place: int, whole_period: bool) -> None:
        row = self.one_row(self.source, self.in_window(), place)
        if whole_period:
            start = f"date_bin('{self.period}', {self.at}, timestamptz '{START}')"
            row = f"(agent_id_hash, {start}) in (select agent_id_hash, {start} from {self.source} where {row})"
        self.database.execute(f"delete from {self.source} where {row} and {self.in_window()}")

    @rule(
        number=st.integers(0, 3),
        edit=st.sampled_from(["revoked_at = {}", "expires_at = {}", "revoked_at = null", None]),
        hours=st.integers(1, 150),
    )
    def key(self, number: int, edit: str | None, hours: int) -> None:
        """A key is revoked, expires, loses its revocation, or is deleted. Runs do not report such changes."""
        moment = f"timestamptz '{self.now - timedelta(hours=hours)}'"
        condition = f"where key_id = 'key-{number}'"
        self.database.execute(
            f"delete from cirislens.covenant_public_keys {condition}"
            if edit is None
            else f"update cirislens.covenant_public_keys set {edit.format(moment)} {condition}"
        )
        self.late_data_came()
        self.has_changed_key = self.has_late_data

    @rule(place=PLACES)
    def resolve(self, place: int) -> None:
        """A deferral is resolved in the restatement window."""
        begin = self.final_until() or START
        self.database.execute(
            f"""
            update cirislens.wbd_deferrals
            set status = 'RESOLVED', resolution_summary = 'done',
                resolved_at = greatest(created_at, '{begin}') + interval '1 minute'
            where deferral_id = (
                select (array_agg(deferral_id order by deferral_id))[1 + {place} % nullif(count(*), 0)]
                from cirislens.wbd_deferrals
                where created_at < '{self.now}' and resolved_at is null and status in ('PENDING', 'UNDER_REVIEW')
            )
            """
        )

    # --- steps that execute commands ---------------------------------------------------------------------------------

    @rule(
        periods=st.integers(0, 2),
        death=DEATHS,
        back=st.sampled_from([0, 0, 1]),
        longer=st.sampled_from([False, False, True]),
    )
    def run(self, periods: int, death: Death = None, back: int = 0, longer: bool = False) -> None:
        """Let time pass, then run as of now or one period earlier, perhaps with a longer restatement window."""
        self.arrive(periods)
        newest, _ = self.publication()
        as_of = max(newest or START, self.now - back * self.period)
        more = {"ciris_lookback_periods": self.lookback + 2, "ciris_allow_rescoring": True} if longer else {}
        self.execute("run", "--as-of", as_of.isoformat(), death=death, **more)

    @rule(periods=st.integers(0, 2), death=DEATHS)
    def build(self, periods: int, death: Death = None) -> None:
        """Let time pass, then run plain dbt."""
        self.arrive(periods)
        self.execute("build", death=death, ciris_as_of=self.now.isoformat())

    @rule(models=st.sampled_from(PARTS))
    def part(self, models: str) -> None:
        """Build some of the models by plain dbt."""
        self.execute("build", "--select", models, ciris_as_of=self.now.isoformat())

    @rule()
    def retry(self) -> None:
        if self.has_built:
            self.execute("retry")

    @rule(death=DEATHS, first=st.integers(0, 12))
    def rescore(self, first: int = 0, death: Death = None) -> None:
        """Score the as-ofs from a day on again; after late data, all that the late data would change."""
        days = timedelta(days=0 if self.has_late_data else first)
        moment = max(START + self.period, min(START + days, self.now)).isoformat()
        if self.advice and not self.has_changed_key:
            moment = self.advice
        as_of = max(self.publication()[0] or START, self.now)
        self.execute("run", "--allow-rescoring", "--as-of", as_of.isoformat(), death=death, ciris_rescore_from=moment)

    @rule(death=DEATHS)
    def refresh(self, death: Death = None) -> None:
        self.execute("run", *REFRESH, "--as-of", self.now.isoformat(), death=death)

    def execute(self, command: str, *arguments: str, death: Death = None, **variables: Any) -> bool:
        """Execute a command, or if it is refused, the command that its message names. Return whether it was refused."""
        self.is_sound = False
        if message := self.refused(command, *arguments, death=death, **variables):
            named = re.search(r"ciris-scoring run((?: --[\w-]+(?: '[^']*')?)*)", message)
            assert named, f"the message of the refusal names no command: {message}"
            # A message with "TIME" recommends to omit --as-of, or to score as-ofs again. This test omits --as-of.
            options = [] if "TIME" in named[1] else shlex.split(named[1])
            options += ["--as-of", self.now.isoformat()]
            further = self.refused("run", *options)
            assert not further, f"{message}\nThe command that the message names is refused, too: {further}"
        self.is_sound = True
        return bool(message)

    def refused(self, command: str, *arguments: str, death: Death = None, **variables: Any) -> str:
        """Execute a command. Return its message if it is refused, and otherwise an empty text."""
        before, variables = self.published(), {**self.variables, **variables}
        how = self.killed if death and death[0] == "is killed" else self.result
        with self.dying(death) if death else nullcontext():
            succeeded, said = how(command, arguments, variables)
        self.has_died = not succeeded and (said == KILLED or "the disk is full" in said)
        after = self.published()
        if before["published_at"] == after["published_at"] is not None:
            assert after == before, f"The marts have changed without a publication: {said}"
        self.advice = ""
        if succeeded and command == "run":
            if "--full-refresh" in arguments or "ciris_rescore_from" in variables:
                self.has_late_data = self.has_changed_key = False
            if advice := re.search(r"--vars 'ciris_rescore_from: (.*?)'$", said, re.MULTILINE):
                self.advice = advice[1]
        return "" if succeeded or self.has_died else said

    def published(self) -> dict[str, Any]:
        """Return the time of the last publication and the fingerprints of the marts."""
        _, published_at = self.publication()
        return {"published_at": published_at, **published(marts(self.database, may_be_none=True))}

    def result(self, command: str, arguments: Sequence[str], variables: dict[str, Any]) -> tuple[bool, str]:
        """Execute a command in this process. Return whether it succeeded, and its output."""
        if command == "run":
            result = run(self.database, *arguments, as_of=None, variables=variables)
            return result.exit_code == 0, result.output
        outcome = dbt(self.database, command, *arguments, variables=variables)
        # A command that dbt refuses at its start writes no results, so dbt retry uses the results of the previous
        # command. It fails if these results are empty, for example after a retry that had nothing to do.
        if outcome.results is not None:
            self.has_built = bool(outcome.results)
        return outcome.exit_code == 0, outcome.output

    def killed(self, command: str, arguments: Sequence[str], variables: dict[str, Any]) -> tuple[bool, str]:
        """Execute a command in another process, and kill the process when it waits for the lock."""
        program = ["ciris-scoring", "run"] if command == "run" else ["dbt", command]
        if command == "build":
            program += ["--exclude-resource-type", "unit_test"]
        options = [*at(self.database), *arguments, "--vars", json.dumps(variables)]
        command_line = ["sh", "-c", 'exec "$@" >&2', "sh", PROGRAMS / program[0], *program[1:], *options]
        # The new process has its own target folder, because this process parses with other settings (conftest.py). In
        # a shared folder, each would parse the project again after the other.
        environment = {"DBT_TARGET_PATH": os.environ["DBT_TARGET_PATH"] + "-killed"}
        with self.database.connect() as holder, patch.dict(os.environ, environment):
            holder.execute("select pg_advisory_lock(%s)", [LOCK])
            before = [pid for (pid,) in holder.execute("select pid from pg_stat_activity")]
            with Command(*command_line) as process:
                wait_until(lambda: process.has_ended or holder.execute(WAITS).fetchone())
                if process.has_ended:
                    return process.wait() == 0, process.said
            holder.execute("select pg_advisory_unlock_all()")
            # The server ends the sessions of a killed process within a second.
            wait_until(lambda: not holder.execute(SESSIONS, [before]).fetchone())
        return False, KILLED

    @contextmanager
    def dying(self, death: tuple[str, int]) -> Iterator[None]:
        """Make the command in the ``with`` block fail or wait at its nth statement."""
        how, nth = death
        with self.database.connect() as connection:
            connection.execute(DIES.format(nth=nth, how=HOW[how]))
            tables = connection.execute(
                "select oid::regclass from pg_class where relkind = 'r' and relnamespace::regnamespace::text"
                " in (%s, %s)",
                [SCHEMA, f"{SCHEMA}_intermediate"],
            ).fetchall()
            for (table,) in tables:
                connection.execute(WRITING_DIES.format(table))
            yield
            connection.execute(LIVES)

    def teardown(self) -> None:
        with self.stack:
            if self.is_sound:
                assert list(self.differences()) == []

    def differences(self) -> Iterator[str]:
        """Score late data, and yield the differences from a first run."""
        if self.execute("run", "--as-of", self.now.isoformat()):
            self.execute("run", "--as-of", self.now.isoformat())
        if self.has_late_data:
            self.rescore()
        with self.database.connect() as connection:
            for layer in ("", "_staging", "_intermediate"):
                connection.execute(f"alter schema {SCHEMA}{layer} rename to {KEPT}{layer}")
            self.execute("run", "--as-of", self.now.isoformat())
            yield from table_differences(connection, SCHEMA, KEPT)
            left = "select oid::regclass::text from pg_class where relname ~ '__dbt|__next' and relkind in ('r', 'v')"
            yield from (f"{name} is left" for (name,) in connection.execute(left))


def step(rule: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return rule, arguments


SHORT_HISTORIES = {
    ("traces", "day"): (
        step("part", models="int_windows+"),  # This build is refused, because no model is built yet.
        step("edit", place=3, kind=1),
        step("delete", place=7, whole_period=True),
        step("run", periods=1, death=("fails", 33)),
        step("build", periods=1, death=("is killed", 20)),
        step("resolve", place=0),
        step("build", periods=0, death=("fails", 50)),
        step("retry"),
        step("rescore", first=1),
        step("key", number=0, edit="revoked_at = {}", hours=60),
        step("run", periods=1, back=1, longer=True, death=("fails", 30)),
        step("run", periods=0, back=1),  # This run finishes the longer run without --allow-rescoring.
        *(step("late", place=place) for place in range(3)),
        step("rescore", death=("is killed", 40)),
        step("refresh", death=("fails", 33)),
    ),
    ("events", "hour"): (
        step("refresh"),
        step("arrive", periods=2),
        step("run", periods=1, death=("is killed", 50)),
        step("again", place=2, periods=1),
        step("rescore", death=("fails", 20), first=2),
        step("build", periods=1),
        step("late", place=5),
        step("refresh", death=("is killed", 33)),
    ),
}
"""Steps by source format and period."""


def wrong(server: Server) -> Iterator[str]:
    """Run the short histories, and yield each difference of their tables from those of a first run, and each step that
    failed unexpectedly or did not fail as expected. The mutation tests call this function, too."""
    for (source, period), steps in SHORT_HISTORIES.items():
        history = Healing(server, threads=1)
        with history.stack:
            history.begin(source, period)
            for rule, arguments in steps:
                history.has_died = False
                getattr(history, rule)(**arguments)
                if history.has_died != bool(arguments.get("death")):
                    yield f"{rule} {arguments}: has died is {history.has_died}"
            yield from history.differences()


@pytest.mark.slow
def test_tables_after_any_history_equal_those_of_a_first_run(embedded_postgres: Server) -> None:
    if not HISTORIES:
        assert list(wrong(embedded_postgres)) == []
        return
    run_state_machine_as_test(
        lambda: Healing(embedded_postgres, threads=4),
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
