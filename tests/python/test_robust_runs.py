"""Tests of runs that meet other runs and failures of the server. test_healing.py has runs that fail or are killed."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import RunInProgress
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import PATIENCE_SECONDS, PROGRAMS, Command, at, invoke, refused
from conftest import Database, fresh_database
from pipeline import RUN_TIMES, create_loose_sources
from test_bad_input import dbt, fleet_database, marts, restore, run, saved
from test_gate import BEFORE, NEWEST, published

VERDICTS = f"{SCHEMA}_intermediate.int_trace_checks"
WINDOWS = f"{SCHEMA}_intermediate.int_windows"
LARGEST_FILE = 16 << 20
"""Limit of the file size. The server must still be able to write a log file."""


@dataclass
class Fleet:
    """A fleet on a server of its own, which the tests stop and crash."""

    database: Database
    scored: str
    """Saved state, scored up to the day before the last."""
    before: dict[str, str]
    """Fingerprints of the marts in that state, and after one more run."""
    after: dict[str, str]

    def restored(self) -> Database:
        restore(self.database, self.scored)
        return self.database

    def marts(self) -> dict[str, str]:
        return published(marts(self.database, without=RUN_TIMES))

    def heals(self) -> bool:
        """Return whether a run gives the normal result."""
        result = run(self.database, as_of=NEWEST)
        assert result.exit_code == 0, result.output
        return self.marts() == self.after


def real_run(database: Database) -> Command:
    return Command(PROGRAMS / "ciris-scoring", "run", *at(database), "--as-of", NEWEST)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with (
        embedded.throw_away() as server,
        fleet_database(server, tmp_path_factory.mktemp("fleet")) as database,
    ):
        assert run(database, as_of=BEFORE).exit_code == 0
        with saved(database) as scored:
            fleet = Fleet(database, scored, {}, {})
            fleet.before = fleet.marts()
            assert run(database, as_of=NEWEST).exit_code == 0
            fleet.after = fleet.marts()
            yield fleet


# --- concurrent runs -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def somebody_in_the_way(database: Database, table: str) -> Iterator[psycopg.Connection]:
    """A session that locks a table, so that a run waits before writing it until the session rolls back."""
    with database.connect() as connection:
        connection.execute(f"begin; lock table {table} in share mode")
        yield connection


def wait_until_one_waits(blocker: psycopg.Connection) -> None:
    """Wait until a session waits for a lock of the blocker."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    query = "select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
    while blocker.execute(query).fetchone() is None:
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.05)


def lock_holder(blocker: psycopg.Connection) -> int:
    """Return the process of the session that holds the run lock."""
    query = "select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and granted"
    return one_row(blocker.execute(query))[0]


def test_a_run_that_has_lost_its_lock_writes_no_more(fleet):
    database = fleet.restored()
    with somebody_in_the_way(database, VERDICTS) as blocker, real_run(database) as command:
        wait_until_one_waits(blocker)
        holder = lock_holder(blocker)
        blocker.execute("select pg_terminate_backend(%s)", [holder])
        blocker.execute("rollback")
        assert command.wait() == 1
        error, hint = command.said.splitlines()[-2:]
    assert f"This run has lost its lock on schema ciris: database process {holder} has ended." in error
    assert "the connection to it was cut. Run again" in hint
    assert fleet.marts() == fleet.before


def test_plain_dbt_shares_the_lock_while_it_writes(fleet, monkeypatch):
    database = fleet.restored()
    plain = (PROGRAMS / "dbt", "run", *at(database), "--select", "int_windows")
    with somebody_in_the_way(database, WINDOWS) as blocker, Command(*plain) as writer:
        wait_until_one_waits(blocker)
        monkeypatch.setattr("ciris_scoring.basics.run_lock.LOCK_SECONDS", 0.5)
        with database.connect() as other, pytest.raises(RunInProgress), run_lock(other, SCHEMA):
            pass
        blocker.execute("rollback")
        assert writer.wait() == 0
    # A run that begins between two models of another run is refused.
    with database.connect() as other, run_lock(other, SCHEMA):
        refused = dbt(database, "run-operation", "write_under_lock")
    assert (
        "Another run holds the lock on schema ciris. Wait until it has ended, then run again." in refused.said
    )


def test_concurrent_runs_are_refused_until_the_lock_is_lost(fleet):
    """A second run is refused. If the first loses its lock, the next run ends its session and continues."""
    database = fleet.restored()
    with somebody_in_the_way(database, WINDOWS) as blocker, real_run(database) as first:
        first.wait_until_said("Scoring ")
        with real_run(database) as second:
            assert second.wait() == 1
            wait_until_one_waits(blocker)
            holder = lock_holder(blocker)
            at_work = f"Another run is at work on schema 'ciris': backend pid {holder} of postgres, connected since 20"
            assert at_work in second.said
            assert f"select pg_terminate_backend({holder});" in second.said
        assert fleet.marts() == fleet.before

        # The session is ended as the hint says. The run itself is still alive and has not noticed.
        blocker.execute("select pg_terminate_backend(%s)", [holder])
        with real_run(database) as third:
            third.wait_until_said(r"Ended database process \d+, at work for a run that has lost its lock")
            blocker.execute("rollback")
            assert first.wait() == 1
            assert "Error: dbt stopped at model int_windows" in first.said
            assert third.wait() == 0, third.said
    assert fleet.marts() == fleet.after


# --- server failures -------------------------------------------------------------------------------------------------


def data_folder(server: Server) -> Path:
    with psycopg.connect(server.conninfo()) as connection:
        return Path(one_row(connection.execute("show data_directory"))[0])


def restart(server: Server, data: Path, mode: str = "fast", largest_file: int | None = None) -> None:
    """Start or restart the server, optionally with a limit of the file size."""
    account = {"user": data.stat().st_uid, "group": data.stat().st_gid} if os.geteuid() == 0 else {}
    command = [server.programs / "pg_ctl", "-D", data, "-w", "-m", mode, "-l", data / "log", "restart"]

    def limit() -> None:
        if largest_file is not None:
            _, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, hard_limit))

    deadline = time.monotonic() + PATIENCE_SECONDS
    # The processes of a crashed server may take a moment to end.
    while subprocess.run(
        command, cwd="/", stdout=subprocess.DEVNULL, preexec_fn=limit, check=False, **account
    ).returncode:
        assert time.monotonic() < deadline, "the server does not start"
        time.sleep(0.2)


def crash(server: Server, data: Path) -> None:
    """Kill the server's main process and start the server again."""
    os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    restart(server, data)


def test_run_after_server_failures_gives_the_normal_result(fleet):
    """The failures follow each other without a reset; then a run succeeds."""
    database = fleet.restored()
    server, data = database.server, data_folder(database.server)
    _without_room(fleet, data)
    _restarted(fleet, "model int_windows\n", lambda: restart(server, data))
    _restarted(fleet, "model fct_capacity_scores\n", lambda: crash(server, data))
    _cancelled(fleet)
    assert fleet.heals()


def _without_room(fleet: Fleet, data: Path) -> None:
    """The server's files cannot grow, and there are too many traces."""
    database = fleet.database
    with database.connect() as connection:
        connection.execute("create table public.as_they_were as table cirislens.covenant_traces")
        connection.execute(
            'insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp")'
            " select (select min(agent_id_hash) from cirislens.covenant_traces where agent_id_hash ~ '[0-9a-f]'),"
            " repeat(md5(n::text), 4),"
            " %s::timestamptz - n * interval '0.5 seconds' from generate_series(1, 120000) as n",
            [NEWEST],
        )
        connection.execute("vacuum cirislens.covenant_traces")  # so that the run need not write there
    restart(database.server, data, largest_file=LARGEST_FILE)
    error, _ = _failure(database)
    assert re.search("Error: dbt stopped at model int_trace_checks .*: could not .* File too large", error)
    assert fleet.marts() == fleet.before

    restart(database.server, data, mode="immediate")
    with database.connect() as connection:
        connection.execute("truncate cirislens.covenant_traces")
        connection.execute("insert into cirislens.covenant_traces table public.as_they_were")


def _restarted(fleet: Fleet, after: str, happens: Callable[[], None]) -> None:
    error, hint = _failure(fleet.database, after, happens)
    # If a model begins after the restart, it finds the lock lost instead of the connection.
    assert re.search("Error: dbt stopped.*(connection|terminat|has lost its lock on schema ciris)", error)
    assert hint == "Hint: The server was stopped, or the connection to it was cut. Run again when it is back."
    assert fleet.marts() in (fleet.before, fleet.after)


def _cancelled(fleet: Fleet) -> None:
    """A statement is blocked and then cancelled. A time limit would not apply to a run."""
    database = fleet.database
    with database.connect() as connection:
        connection.execute(f"alter database {database.name} set statement_timeout = '2s'")
    with somebody_in_the_way(database, WINDOWS) as blocker, real_run(database) as command:
        command.wait_until_said("Waiting for ")
        blocker.execute("select pg_cancel_backend(pid) from pg_locks where not granted")
        assert command.wait() == 1
        error, hint = command.said.splitlines()[-2:]
    assert re.search("at model int_windows .*: canceling statement due to user request", error)
    assert hint.startswith("Hint: The marts stay as they were.")
    assert fleet.marts() in (fleet.before, fleet.after)


def _failure(database: Database, after: str = "", happens: Callable[[], None] = lambda: None) -> list[str]:
    """Return error and hint of a run during which something happens after a certain output."""
    with real_run(database) as command:
        command.wait_until_said(after)
        happens()
        assert command.wait() == 1
        return command.said.splitlines()[-2:]


def test_standby_refuses_every_command_that_writes(tmp_path):
    """The server is in recovery, like a standby."""
    schemas = [SCHEMA, f"{SCHEMA}_staging", f"{SCHEMA}_intermediate"]
    with embedded.throw_away() as server, fresh_database(server, tmp_path) as database:
        with database.connect() as connection:
            create_loose_sources(connection)
            connection.execute("; ".join(f"create schema {schema}" for schema in schemas))
            connection.execute("checkpoint")
        data = data_folder(server)
        standby = data / "standby.signal"
        standby.touch()
        os.chown(standby, data.stat().st_uid, data.stat().st_gid)
        restart(server, data)
        try:
            for arguments in (["run"], ["run", "--from", "2026-06-01", "--to", "2026-06-02"], ["simulate"]):
                error, hint = refused(invoke(*arguments, *at(database)))
                assert f"database '{database.name}' at " in error
                assert "is a standby, which can only be read." in error
                assert hint.startswith(
                    "Hint: Connect to the primary: correct host and port of the target in "
                )
            assert "is a standby" in invoke("check", *at(database)).stdout
            plain = dbt(database, "build", variables={"ciris_as_of": "2026-06-15"})
            assert not plain.succeeded
            assert "is a standby, which can only be read. Connect to the primary" in plain.said
        finally:
            standby.unlink()
            restart(server, data)


def test_a_throw_away_server_is_stopped_even_when_it_has_crashed_and_started_again(monkeypatch):
    delete, left_running = shutil.rmtree, []

    def delete_folder(folder: Path, ignore_errors: bool = False) -> None:
        left_running.extend(folder.rglob("postmaster.pid"))
        delete(folder, ignore_errors)

    with embedded.throw_away() as server:
        data = data_folder(server)
        first = int((data / "postmaster.pid").read_text().split()[0])
        crash(server, data)
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(first, 0)
                time.sleep(0.1)
        monkeypatch.setattr(embedded.shutil, "rmtree", delete_folder)
    assert not data.exists()
    assert left_running == []
