"""Tests of runs that meet other runs and failures of the server. test_healing.py has runs that fail or are killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.database.connection import one_row
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import PROGRAMS, Command, at, invoke, refused
from conftest import Database
from pipeline import RUN_TIMES, wait_until
from test_bad_input import dbt, fleet_database, marts, refusal, run
from test_gate import BEFORE, NEWEST, published

SCORED_UNTIL = BEFORE


def real_run(database: Database) -> Command:
    return Command(PROGRAMS / "ciris-scoring", "run", *at(database), "--as-of", NEWEST)


def published_marts(database: Database) -> dict[str, str]:
    return published(marts(database, without=RUN_TIMES))


# --- concurrent runs -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def int_windows_locked(database: Database) -> Iterator[psycopg.Connection]:
    """Lock int_windows in a session, so that a run waits before it writes the table until the session rolls back."""
    with database.connect() as connection:
        connection.execute(f"begin; lock table {SCHEMA}_intermediate.int_windows in share mode")
        yield connection


def wait_until_one_waits(blocker: psycopg.Connection) -> None:
    """Wait until a session waits for a lock of the blocker."""
    query = "select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
    wait_until(lambda: blocker.execute(query).fetchone())


@pytest.mark.slow
def test_concurrent_run_is_refused_and_a_run_that_another_has_replaced_stops(small_fleet):
    """A second run is refused. If the first run loses its lock, the next run waits until the first run's transaction
    has ended, and the first run writes nothing any more."""
    before = published_marts(small_fleet)
    with int_windows_locked(small_fleet) as blocker, real_run(small_fleet) as first:
        wait_until_one_waits(blocker)
        query = "select pid from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and granted"
        [holder] = one_row(blocker.execute(query))
        second = run(small_fleet, as_of=NEWEST)
        assert second.exit_code == 1
        assert f"Another run is in progress on schema 'ciris': backend pid {holder} of postgres" in second.output
        assert published_marts(small_fleet) == before

        blocker.execute("select pg_terminate_backend(%s)", [holder])
        with real_run(small_fleet) as third:
            of_third = "select 1 from pg_stat_activity where query ~ 'int_scoring_run' and wait_event_type = 'Lock'"
            wait_until(lambda: small_fleet.execute(of_third))
            blocker.execute("rollback")
            assert first.wait() == 1
            assert "Another run has begun on schema ciris" in first.said, first.said
            assert third.wait() == 0, third.said
    assert published_marts(small_fleet) != before


# --- server failures -------------------------------------------------------------------------------------------------


def restart(server: Server, data: Path) -> None:
    """Start or restart the server."""
    account = {"user": data.stat().st_uid, "group": data.stat().st_gid} if os.geteuid() == 0 else {}
    command = [server.programs / "pg_ctl", "-D", data, "-w", "-m", "fast", "-l", data / "log", "restart"]
    # The processes of a crashed server may take a moment to end.
    wait_until(lambda: subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, **account).returncode == 0)


@pytest.mark.slow
def test_run_continues_on_a_server_that_crashed_and_was_a_standby(tmp_path):
    """The server is killed during a run. It starts in recovery, like a standby, and then as a primary."""
    with embedded.throw_away() as server, fleet_database(server, tmp_path) as database:
        with database.connect() as connection:
            data = Path(one_row(connection.execute("show data_directory"))[0])
        with real_run(database) as command:
            command.wait_until_said("model int_agent_periods\n")
            os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            assert command.wait() == 1
            error, hint = command.said.splitlines()[-2:]
        assert re.search("Error: dbt stopped.*(connection|terminat)", error)
        expected = "The server was stopped, or the connection to it was cut. Run again when it is back."
        assert hint == f"Hint: {expected}"

        standby = data / "standby.signal"
        standby.touch()
        os.chown(standby, data.stat().st_uid, data.stat().st_gid)
        restart(server, data)
        try:
            refuses_to_write(database)
        finally:
            standby.unlink()
            restart(server, data)
        assert run(database, as_of=NEWEST).exit_code == 0


def refuses_to_write(database: Database) -> None:
    """Check that every command that writes is refused on a standby."""
    for arguments in (["run"], ["simulate"]):
        error, hint = refused(invoke(*arguments, *at(database)))
        assert f"database '{database.name}' at " in error
        assert "is a standby, which can only be read." in error
        assert hint.startswith("Hint: Connect to the primary: correct host and port of the target in ")
    assert "is a standby" in invoke("check", *at(database)).stdout
    plain = refusal(dbt(database, "build", variables={"ciris_as_of": "2026-06-15"}))
    assert "is a standby, which can only be read. Connect to the primary" in plain
