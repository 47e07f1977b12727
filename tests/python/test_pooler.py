"""Test with a real PgBouncer in transaction mode, which gives each transaction of a client another session."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.database.connection import SEARCH_PATH
from ciris_scoring.database.project import load_project
from ciris_scoring.lab.embedded import Server, write_profile
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


@contextlib.contextmanager
def pooled(database: Database, folder: Path, pool_mode: str, line: str) -> Iterator[Database]:
    """Start a PgBouncer for a database, and yield the database with a profile that connects through PgBouncer.

    :param line: additional line of PgBouncer's configuration.
    """
    # A socket needs a short path. PgBouncer refuses to run as root, and its user must be able to read the folder.
    socket_folder = Path(tempfile.mkdtemp(prefix="bouncer-"))
    owner = Path(database.server.socket_folder).stat()
    (socket_folder / "users.txt").write_text('"postgres" ""\n')
    configuration = f"""
        [databases]
        * = host={database.server.socket_folder} port={database.server.port}
        [pgbouncer]
        auth_type = trust
        auth_file = {socket_folder}/users.txt
        listen_addr =
        unix_socket_dir = {socket_folder}
        listen_port = {PORT}
        logfile = {socket_folder}/log
        pool_mode = {pool_mode}
        {line}
        """
    (socket_folder / "pgbouncer.ini").write_text(textwrap.dedent(configuration))
    account = {"user": owner.st_uid, "group": owner.st_gid} if os.geteuid() == 0 else {}
    if account:
        for path in (socket_folder, *socket_folder.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
    profiles_dir = folder / "pooled"
    profiles_dir.mkdir()
    server = Server(str(socket_folder), PORT, database.server.user, database.server.programs)
    write_profile(profiles_dir, server, database=database.name)
    bouncer = subprocess.Popen(
        [str(PGBOUNCER), "-q", str(socket_folder / "pgbouncer.ini")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        **account,
    )
    try:
        wait_until(lambda: bouncer.poll() is not None or (socket_folder / f".s.PGSQL.{PORT}").exists())
        assert bouncer.poll() is None, (socket_folder / "log").read_text()
        yield Database(server, database.name, profiles_dir)
    finally:
        bouncer.terminate()
        bouncer.wait()
        shutil.rmtree(socket_folder)


@pytest.mark.slow
def test_commands_work_through_a_pooler_that_shares_sessions(small_fleet: Database, tmp_path: Path) -> None:
    """Other clients get the same sessions, and must not get settings or locks."""
    with pooled(small_fleet, tmp_path, "transaction", "ignore_startup_parameters = options") as behind:
        succeeded(run(behind, as_of=NEWEST))
        plain = dbt(behind, "build", variables={"ciris_as_of": NEWEST})
        assert plain.succeeded, plain.said
        api = ServedDatabase(load_project(REPOSITORY, behind.profiles_dir))
        shown = "select current_setting('transaction_read_only'), current_setting('search_path')"
        assert api.read(lambda connection: connection.execute(shown).fetchone()) == ("on", SEARCH_PATH)
        succeeded(command(behind, "report", "--output", tmp_path / "report.html"))
        succeeded(command(behind, "check"))
        with psycopg.connect(behind.conninfo, autocommit=True, prepare_threshold=None) as other:
            for name in ("default_transaction_read_only", "statement_timeout", "search_path", "row_security"):
                [[left]] = other.execute(f"show {name}").fetchall()
                with small_fleet.connect() as direct:
                    assert direct.execute(f"show {name}").fetchone() == (left,)
        assert small_fleet.execute("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]
    rows = marts(small_fleet, without=RUN_TIMES)
    succeeded(run(small_fleet, "--full-refresh", "--allow-rescoring", as_of=NEWEST))
    assert marts(small_fleet, without=RUN_TIMES) == rows
