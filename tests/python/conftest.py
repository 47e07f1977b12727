"""Fixtures for databases: PostgreSQL servers, started once, with a new database for each test."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dbt.adapters.postgres.connections import PostgresCredentials
from dbt_common.tests import enable_test_caching

from ciris_scoring.database.project import Project, load_project
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "tests" / "data"
OLDEST_POSTGRESQL = 15

# Parallel workers need separate target folders.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
os.environ["DBT_TARGET_PATH"] = str(REPOSITORY / "target" / f"pytest-{WORKER}")
os.environ["DBT_LOG_PATH"] = str(REPOSITORY / "logs" / f"pytest-{WORKER}")
# Tests must not depend on the width of the terminal.
os.environ.pop("COLUMNS", None)

# When dbt parses, it reads each macro three times. dbt's cache of macros saves a third of the time of all tests.
enable_test_caching()

# dbt would parse the project again for each host, port and user, although the result does not depend on them.
SERVER_KEYS = ("host", "port", "user")
CONNECTION_KEYS = PostgresCredentials._connection_keys
PostgresCredentials._connection_keys = lambda self: tuple(
    key for key in CONNECTION_KEYS(self) if key not in SERVER_KEYS
)


# Test files that take longest. They run first, so that parallel workers finish at about the same time.
LONGEST = (
    *("test_healing", "test_cases", "test_gate", "test_equals_reference", "test_bad_input"),
    *("test_robust_runs", "test_process_per_model", "test_pages", "test_as_package", "test_source_changes"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@dataclass(frozen=True)
class Database:
    """Database of a test, and folder with a dbt profile for this database."""

    server: Server
    name: str
    profiles_dir: Path

    @property
    def conninfo(self) -> str:
        return self.server.conninfo(self.name)

    def connect(self) -> psycopg.Connection:
        """Open a connection in autocommit mode with time zone UTC."""
        return psycopg.connect(self.conninfo, autocommit=True, options="-c timezone=UTC")

    def execute(self, statement: str, values: Any = None) -> list[Any]:
        """Execute a statement in a new session and return the rows."""
        with self.connect() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


def administer(server: Server, statement: str) -> None:
    """Execute a statement that creates, changes or drops a database or a role."""
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(statement)


@pytest.fixture(scope="session")
def embedded_postgres() -> Iterator[Server]:
    """Server of the PostgreSQL 18 that the package embeds."""
    with embedded.throw_away() as server:
        yield server


@pytest.fixture(scope="session")
def system_postgres() -> Iterator[Server]:
    """Server of the newest installed PostgreSQL, 15 or later. If none is installed, the test is skipped."""
    programs = _system_programs()
    if programs is None:
        pytest.skip(f"no PostgreSQL {OLDEST_POSTGRESQL} or newer is installed on the system")
    folder = Path(tempfile.mkdtemp(prefix="ciris-"))
    data_folder = folder / "pg"

    # PostgreSQL refuses to run as root.
    account: dict = {}
    if os.geteuid() == 0:
        owner = next((u for u in pwd.getpwall() if u.pw_name == "postgres"), None) or pwd.getpwnam("nobody")
        account = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        folder.chmod(0o755)

    def run(program: str, *arguments: str) -> None:
        # The server inherits the output and keeps it open. Reading a pipe would never end, so the output is a file.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [programs / program, "-D", data_folder, *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", check=False, **account,
            )  # fmt: skip
            output.seek(0)
            assert done.returncode == 0, output.read().decode()

    run("initdb", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
    try:
        options = f"-c listen_addresses= -c fsync=off -c wal_level=logical -k {folder}"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield Server(str(folder), 5432, "postgres", programs)
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(embedded_postgres: Server, tmp_path: Path) -> Iterator[Database]:
    """A new database on the embedded server."""
    with fresh_database(embedded_postgres, tmp_path) as database:
        yield database


@contextmanager
def fresh_database(server: Server, folder: Path, template: str = "template1") -> Iterator[Database]:
    """Create a database with a profile, and drop it afterwards.

    The name is the first of test_1, test_2, ... that is free. Names are used again, because dbt parses the project
    again for each new name.
    """
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        taken = {name for (name,) in connection.execute("select datname from pg_database")}
        name = next(name for name in (f"test_{number}" for number in count(1)) if name not in taken)
        connection.execute(f"create database {name} template {template} strategy file_copy")
    profiles_dir = folder / "profiles"
    profiles_dir.mkdir()
    embedded.write_profile(profiles_dir, server, database=name)
    try:
        yield Database(server, name, profiles_dir)
    finally:
        administer(server, f"drop database {name} with (force)")


def _system_programs() -> Path | None:
    """Return the folder of the newest installed pg_ctl, or None if there is none."""
    debian = {int(folder.parent.name): folder for folder in Path("/usr/lib/postgresql").glob("*/bin")}
    if max(debian, default=0) >= OLDEST_POSTGRESQL:
        return debian[max(debian)]
    pg_ctl = shutil.which("pg_ctl")
    return Path(pg_ctl).resolve().parent if pg_ctl else None


@pytest.fixture(scope="session")
def scored_sample(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The scored sample, shared by all tests. Tests that change data use sample_copy instead."""
    from pipeline import score_sample

    with fresh_database(embedded_postgres, tmp_path_factory.mktemp("sample")) as database:
        score_sample(database)
        yield database


@pytest.fixture
def marts(scored_sample: Database) -> Iterator[psycopg.Connection]:
    """A connection to the scored sample with the marts in its search path. All changes are rolled back."""
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local search_path to {embedded.SCHEMA}, {embedded.SCHEMA}_intermediate")
        yield connection


@pytest.fixture(scope="module")
def sample_copy(scored_sample: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A copy of the scored sample, which the tests of a module may change."""
    with copy_of(scored_sample, tmp_path_factory.mktemp("copy")) as database:
        yield database


@pytest.fixture(scope="module")
def module_database(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A new database on the embedded server for all tests of a module."""
    with fresh_database(embedded_postgres, tmp_path_factory.mktemp("database")) as database:
        yield database


@pytest.fixture(scope="session")
def fleet_until(
    embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str | None], str]]:
    """Function that returns the name of a template database with the small fleet, scored up to an as-of or unscored."""
    from command_line import succeeded
    from test_bad_input import fleet_database, run, saved

    with ExitStack() as stack:

        @cache
        def template(as_of: str | None) -> str:
            with fleet_database(embedded_postgres, tmp_path_factory.mktemp("fleet")) as database:
                if as_of is not None:
                    succeeded(run(database, as_of=as_of))
                return stack.enter_context(saved(database))

        yield template


@pytest.fixture(scope="module")
def saved_fleet(request: pytest.FixtureRequest, fleet_until: Callable[[str | None], str]) -> str:
    """Name of the template database with the small fleet, scored up to SCORED_UNTIL if the test module defines it."""
    return fleet_until(getattr(request.module, "SCORED_UNTIL", None))


@pytest.fixture(scope="module")
def small_fleet(
    embedded_postgres: Server, saved_fleet: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """A copy of the template database of saved_fleet, for all tests of a module."""
    with fresh_database(embedded_postgres, tmp_path_factory.mktemp("copy"), saved_fleet) as database:
        yield database


@pytest.fixture
def restored(small_fleet: Database, saved_fleet: str) -> Database:
    """The database of small_fleet, restored from its template database before each test."""
    from test_bad_input import restore

    restore(small_fleet, saved_fleet)
    return small_fleet


@pytest.fixture(scope="module")
def sample_project(scored_sample: Database) -> Project:
    """The project whose target is the scored sample."""
    return load_project(REPOSITORY, scored_sample.profiles_dir)


@pytest.fixture
def own_server(embedded_postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Database on the tests' server that `run --from-batches` and `run --from-node` use, in place of one on a server of
    the project."""
    from ciris_scoring.cli import run_from_batches
    from ciris_scoring.database import project

    monkeypatch.setattr(embedded, "start", lambda state_folder: embedded_postgres)
    with fresh_database(embedded_postgres, tmp_path) as database:
        for module, name in ((run_from_batches, "BATCHES_FOLDER"), (project, "NODES_FOLDER")):
            monkeypatch.setattr(module, name, database.profiles_dir)
        for module, name in ((run_from_batches, "DATABASE"), (embedded, "NODES_DATABASE")):
            monkeypatch.setattr(module, name, database.name)
        yield database


@contextmanager
def copy_of(database: Database, folder: Path) -> Iterator[Database]:
    """Create a copy of a database. No session may be connected to the original."""
    with fresh_database(database.server, folder, template=database.name) as copy:
        yield copy


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Chromium's sandbox needs rights that a container lacks. The other flags prevent access to the network.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium. If it is not installed, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed on the system (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
