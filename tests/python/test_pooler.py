"""Test with a real PgBouncer in transaction mode, which gives each transaction of a client another session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.database.connection import SEARCH_PATH
from ciris_scoring.database.project import load_project
from ciris_scoring.lab.embedded import write_profile
from ciris_scoring.show.api.database import Database as ServedDatabase
from command_line import command, succeeded
from conftest import REPOSITORY, Database
from pipeline import RUN_TIMES, wait_until
from test_bad_input import dbt, marts, run

NEWEST = "2026-06-15T00:00:00Z"
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
PORT = 6432
pytestmark = pytest.mark.skipif(
    PGBOUNCER is None, reason="no PgBouncer is installed on the system (Debian: apt-get install pgbouncer)"
)


@pytest.fixture
def pooled(small_fleet: Database, tmp_path: Path) -> Iterator[Database]:
    """The small fleet, with a profile that connects through PgBouncer."""
    # A socket needs a short path. PgBouncer refuses to run as root, and its user must be able to read the folder.
    folder = Path(tempfile.mkdtemp(prefix="bouncer-"))
    settings = {
        "auth_type": "trust", "auth_file": folder / "users.txt", "listen_addr": "", "unix_socket_dir": folder,
        "listen_port": PORT, "logfile": folder / "log", "pool_mode": "transaction",
        "ignore_startup_parameters": "options",
    }  # fmt: skip
    server = small_fleet.server
    lines = ["[databases]", f"* = host={server.socket_folder} port={server.port}", "[pgbouncer]"]
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text("\n".join([*lines, *(f"{name} = {of}" for name, of in settings.items())]))
    account = {}
    if os.geteuid() == 0:
        owner = Path(server.socket_folder).stat()
        account = {"user": owner.st_uid, "group": owner.st_gid}
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
    behind = replace(server, socket_folder=str(folder), port=PORT)
    write_profile(tmp_path, behind, database=small_fleet.name)
    nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    bouncer = subprocess.Popen([str(PGBOUNCER), "-q", str(folder / "pgbouncer.ini")], cwd="/", **nothing, **account)
    try:
        wait_until(lambda: bouncer.poll() is not None or (folder / f".s.PGSQL.{PORT}").exists())
        assert bouncer.poll() is None, (folder / "log").read_text()
        yield Database(behind, small_fleet.name, tmp_path)
    finally:
        bouncer.terminate()
        bouncer.wait()
        shutil.rmtree(folder)


@pytest.mark.slow
def test_commands_work_through_a_pooler_that_shares_sessions(
    small_fleet: Database, pooled: Database, tmp_path: Path
) -> None:
    """Other clients get the same sessions, and must not get settings or locks."""
    succeeded(run(pooled, as_of=NEWEST))
    succeeded(dbt(pooled, "build", variables={"ciris_as_of": NEWEST}))
    api = ServedDatabase(load_project(REPOSITORY, pooled.profiles_dir))
    shown = "select current_setting('transaction_read_only'), current_setting('search_path')"
    assert api.read(lambda connection: connection.execute(shown).fetchone()) == ("on", SEARCH_PATH)
    succeeded(command(pooled, "report", "--output", tmp_path / "report.html"))
    succeeded(command(pooled, "check"))
    with psycopg.connect(pooled.conninfo, autocommit=True, prepare_threshold=None) as other:
        for name in ("default_transaction_read_only", "statement_timeout", "search_path", "row_security"):
            assert other.execute(f"show {name}").fetchall() == small_fleet.execute(f"show {name}"), name
    assert small_fleet.execute("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]
    rows = marts(small_fleet, without=RUN_TIMES)
    succeeded(run(small_fleet, "--full-refresh", "--allow-rescoring", as_of=NEWEST))
    assert marts(small_fleet, without=RUN_TIMES) == rows
