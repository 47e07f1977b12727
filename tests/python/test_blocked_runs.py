"""Tests of runs that meet locks of other sessions: readers, backups and maintenance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from ciris_scoring.lab.embedded import SCHEMA
from command_line import PATIENCE_SECONDS, PROGRAMS, Command, at
from conftest import Database
from test_bad_input import dbt, restore

NEWEST = SCORED_UNTIL = "2026-06-15T00:00:00Z"
VIEW = f"{SCHEMA}.fct_factor_components"


@pytest.fixture
def database(saved_fleet: tuple[Database, str]) -> Database:
    """A scored and published fleet."""
    restore(*saved_fleet)
    return saved_fleet[0]


@contextlib.contextmanager
def open_transaction(database: Database, *statements: str) -> Iterator[tuple[psycopg.Connection, int]]:
    """Open a transaction, execute statements and leave it idle; yields the connection and its process id."""
    with database.connect() as connection:
        connection.execute("set application_name to 'dashboard'")
        connection.execute("begin")
        for statement in statements:
            connection.execute(statement)
        yield connection, connection.info.backend_pid


def change_view(database: Database) -> None:
    """Replace the view by a different one with the same columns."""
    with database.connect() as connection:
        connection.execute(f"alter view {VIEW} rename to fct_factor_components_as_it_was")
        connection.execute(f"create view {VIEW} as select * from {VIEW}_as_it_was where false")


# --- locks that exclude readers --------------------------------------------------------------------------------------

LOCKED = {
    "changed view": ("fct_factor_components", "select"),
    "column of a newer version": (
        "fct_fleet_capacity",
        f"alter table {SCHEMA}.fct_fleet_capacity drop n_agents cascade",
    ),
    "table in place of a view": (
        "int_core_identity",
        f"alter view {SCHEMA}_intermediate.int_core_identity rename to elsewhere;"
        f"create table {SCHEMA}_intermediate.int_core_identity as table {SCHEMA}_intermediate.elsewhere",
    ),
    "full refresh of a table": ("int_source_periods", "select"),
    "full refresh of a seed": ("deferral_outcomes", "select"),
}
"""Changes that need a lock which excludes readers: relation and preparing statement."""


def test_locked_relations_name_the_session_in_the_way(database: Database) -> None:
    """A full refresh finds each of the relations locked."""
    change_view(database)
    with database.connect() as connection:
        for _, change in LOCKED.values():
            connection.execute(change)
        relations = connection.execute(
            "select relname, relnamespace::regnamespace::text from pg_class"
            " where relname = any(%s) and relnamespace::regnamespace::text like 'ciris%%'",
            [[name for name, _ in LOCKED.values()]],
        ).fetchall()
    last = f"select count(*) from {VIEW}"
    reads = [f"select count(*) from {schema}.{name}" for name, schema in relations]
    names = [name for name, _ in LOCKED.values()]
    with open_transaction(database, *reads, last) as (_, pid):
        variables = {"ciris_as_of": NEWEST, "ciris_lock_wait_seconds": 1}
        views = dbt(database, "run", "--select", *names[:3], variables=variables)
        variables["ciris_allow_rescoring"] = True
        options = ("--full-refresh", "--select", "deferral_outcomes", "+int_scoring_run")
        refreshed = dbt(database, "build", *options, variables=variables)
    assert not views.succeeded and not refreshed.succeeded
    for name, schema in relations:
        locked = f'"{schema}"."{name}" cannot be changed: Database process {pid} of user postgres '
        said = views.said if name in names[:3] else refreshed.said
        assert locked + "(application dashboard) has locked it" in said, said
    for text in (
        "state idle in transaction, transaction open since 20",
        f"last query: {last}.",
        f"select pg_terminate_backend({pid});",
        "ciris_lock_wait_seconds (now 1)",
    ):
        assert text in views.said, views.said


# --- what a run waits for --------------------------------------------------------------------------------------------


def test_run_says_what_it_waits_for_and_lets_readers_pass(database: Database) -> None:
    """All relations are read meanwhile. One table is locked by another session, and one view has changed."""
    change_view(database)
    with database.connect() as connection:
        connection.execute(f"update {SCHEMA}_intermediate.int_runs set state_digest = null")
        names = connection.execute(
            "select oid::regclass::text from pg_class where relkind in ('r', 'v')"
            " and relnamespace::regnamespace::text = %s and oid <> %s::regclass",
            [SCHEMA, VIEW],
        ).fetchall()
    lock = f"lock table {SCHEMA}_intermediate.int_trace_checks in share mode"
    reads = [f"select count(*) from {name}" for (name,) in names if not name.endswith("_as_it_was")]
    real_run = Command(PROGRAMS / "ciris-scoring", "run", *at(database), "--as-of", NEWEST)
    with (
        open_transaction(database, *reads),
        open_transaction(database, f"select count(*) from {VIEW}") as (reader, reads_view),
        open_transaction(database, lock) as (blocker, pid),
        real_run as command,
    ):
        of_session = r"of user postgres \(application dashboard\), state idle in transaction, transaction open since 20"
        command.wait_until_said(
            rf"Waiting for \d+ s: {SCHEMA}_intermediate.int_trace_checks is locked by database process {pid} "
            rf"{of_session}\d\d-.* UTC, last query: {lock}\n"
        )
        blocker.execute("rollback")
        command.wait_until_said(
            rf"Waiting for \d+ s: {VIEW} is locked by database process {reads_view} {of_session}"
        )
        with database.connect() as other:
            other.execute(f"set statement_timeout to '{PATIENCE_SECONDS}s'")
            assert other.execute(f"select count(*) from {VIEW}").fetchone() == (0,)
        reader.execute("rollback")
        assert command.wait() == 0, command.said
    with database.connect() as connection:
        assert connection.execute(f"select count(*) > 0 from {VIEW}").fetchone() == (True,)
