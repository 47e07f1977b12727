"""Tests that the marts stay readable however a run ends, and that the next run gives the normal result (see
kills.py)."""

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
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import RunInProgress
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import at, invoke, refused
from conftest import Database, fresh_database
from kills import (
    PATIENCE_SECONDS,
    PROGRAMS,
    UNDISTURBED,
    Case,
    Command,
    differences_after_another_run,
    draw,
    half_published,
    kill,
    marts,
    real_run,
)
from kills import cases as kill_cases
from pipeline import create_loose_sources, table_differences
from test_bad_input import dbt, restore

VERDICTS = f"{SCHEMA}_intermediate.int_trace_checks"
WINDOWS = f"{SCHEMA}_intermediate.int_windows"
LARGEST_FILE = 16 << 20
"""Limit of the file size. The server must still be able to write a log file."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A separate server, which the tests stop and crash."""
    with embedded.throw_away() as server:
        yield server


@pytest.fixture(scope="module")
def fleet(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, dict[str, Case]]]:
    with kill_cases(server, tmp_path_factory.mktemp("fleet"), only_increment=True) as fleet:
        yield fleet


def test_run_after_killed_runs_gives_the_normal_result(fleet):
    """Killed one after the other: early, before the scores, after them, and in the Python model."""
    database, cases = fleet
    numbers = (1, 12, 6, 10)
    [case] = {draw(number): cases[draw(number)] for number in numbers}.values()
    restore(database, case.state)
    for number in numbers:
        outcome = kill(database, case, number)
        print(outcome)
        assert outcome.wrong == []
    assert differences_after_another_run(database, case) == []


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
    database, cases = fleet
    case = cases["increment"]
    restore(database, case.state)
    with somebody_in_the_way(database, VERDICTS) as blocker, real_run(database, case) as command:
        wait_until_one_waits(blocker)
        holder = lock_holder(blocker)
        blocker.execute("select pg_terminate_backend(%s)", [holder])
        blocker.execute("rollback")
        assert command.wait() == 1
        error, hint = command.said.splitlines()[-2:]
    assert f"This run has lost its lock on schema ciris: database process {holder} has ended." in error
    assert "the connection to it was cut. Run again" in hint
    assert marts(database) == case.before


def test_plain_dbt_shares_the_lock_while_it_writes(fleet, monkeypatch):
    database, cases = fleet
    restore(database, cases["increment"].state)
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
    database, cases = fleet
    case = cases["increment"]
    restore(database, case.state)
    with somebody_in_the_way(database, WINDOWS) as blocker, real_run(database, case) as first:
        first.wait_until_said("Scoring ")
        with real_run(database, case) as second:
            assert second.wait() == 1
            wait_until_one_waits(blocker)
            holder = lock_holder(blocker)
            at_work = f"Another run is at work on schema 'ciris': backend pid {holder} of postgres, connected since 20"
            assert at_work in second.said
            assert f"select pg_terminate_backend({holder});" in second.said
        assert marts(database) == case.before

        # The session is ended as the hint says. The run itself is still alive and has not noticed.
        blocker.execute("select pg_terminate_backend(%s)", [holder])
        with real_run(database, case) as third:
            third.wait_until_said(r"Ended database process \d+, at work for a run that has lost its lock")
            blocker.execute("rollback")
            assert first.wait() == 1
            assert "Error: dbt stopped at model int_windows" in first.said
            assert third.wait() == 0, third.said
    with database.connect() as connection:
        assert table_differences(connection, SCHEMA, UNDISTURBED) == []


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
    database, cases = fleet
    case = cases["increment"]
    restore(database, case.state)
    server, data = database.server, data_folder(database.server)
    _without_room(database, case, data)
    _restarted(database, case, "model int_windows\n", lambda: restart(server, data))
    _restarted(database, case, "model fct_capacity_scores\n", lambda: crash(server, data))
    _cancelled(database, case)
    assert differences_after_another_run(database, case) == []


def _without_room(database: Database, case: Case, data: Path) -> None:
    """The server's files cannot grow, and there are too many traces."""
    with database.connect() as connection:
        connection.execute("create table public.as_they_were as table cirislens.covenant_traces")
        connection.execute(
            'insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp")'
            " select (select min(agent_id_hash) from cirislens.covenant_traces where agent_id_hash ~ '[0-9a-f]'),"
            " repeat(md5(n::text), 4),"
            " %s - n * interval '0.5 seconds' from generate_series(1, 120000) as n",
            [case.as_of],
        )
        connection.execute("vacuum cirislens.covenant_traces")  # so that the run need not write there
    restart(database.server, data, largest_file=LARGEST_FILE)
    error, _ = _failure(database, case)
    assert re.search("Error: dbt stopped at model int_trace_checks .*: could not .* File too large", error)
    assert marts(database) == case.before

    restart(database.server, data, mode="immediate")
    with database.connect() as connection:
        connection.execute("truncate cirislens.covenant_traces")
        connection.execute("insert into cirislens.covenant_traces table public.as_they_were")


def _restarted(database: Database, case: Case, after: str, happens: Callable[[], None]) -> None:
    error, hint = _failure(database, case, after, happens)
    # If a model begins after the restart, it finds the lock lost instead of the connection.
    assert re.search("Error: dbt stopped.*(connection|terminat|has lost its lock on schema ciris)", error)
    assert hint == "Hint: The server was stopped, or the connection to it was cut. Run again when it is back."
    assert half_published(case, marts(database)) == []


def _cancelled(database: Database, case: Case) -> None:
    """A statement is blocked and then cancelled. A time limit would not apply to a run."""
    with database.connect() as connection:
        connection.execute(f"alter database {database.name} set statement_timeout = '2s'")
    with somebody_in_the_way(database, WINDOWS) as blocker, real_run(database, case) as command:
        command.wait_until_said("Waiting for ")
        blocker.execute("select pg_cancel_backend(pid) from pg_locks where not granted")
        assert command.wait() == 1
        error, hint = command.said.splitlines()[-2:]
    assert re.search("at model int_windows .*: canceling statement due to user request", error)
    assert hint.startswith("Hint: The marts stay as they were.")
    assert half_published(case, marts(database)) == []


def _failure(
    database: Database, case: Case, after: str = "", happens: Callable[[], None] = lambda: None
) -> list[str]:
    """Return error and hint of a run during which something happens after a certain output."""
    with real_run(database, case) as command:
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
