"""Tests of runs that meet locks of other sessions: readers, backups and maintenance."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import psycopg
import pytest

from ciris_scoring.lab.embedded import SCHEMA
from command_line import PATIENCE_SECONDS, PROGRAMS, Command, at
from conftest import Database
from test_bad_input import Dbt, dbt, restore
from test_robust_runs import wait_until_one_waits

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


def plain_dbt(database: Database, *command: str, **variables: object) -> Dbt:
    """Run plain dbt in this process."""
    return dbt(database, *command, variables={"ciris_as_of": NEWEST, **variables})


def real_dbt(database: Database, *command: str, **variables: object) -> Command:
    """Run plain dbt in a separate process, which is killed if it hangs."""
    given = json.dumps({"ciris_as_of": NEWEST, **variables})
    return Command(
        "sh", "-c", 'exec "$@" >&2', "dbt", PROGRAMS / "dbt", *command, *at(database), "--vars", given
    )


# --- readers and replaced views --------------------------------------------------------------------------------------


def test_build_of_unchanged_views_and_seeds_does_not_wait_for_readers(database: Database) -> None:
    """Readers of all marts hold locks on the views, tables and seeds behind them, too."""
    with database.connect() as connection:
        names = connection.execute(
            "select oid::regclass::text from pg_class where relkind in ('r', 'v')"
            " and relnamespace::regnamespace::text = %s",
            [SCHEMA],
        ).fetchall()
    with (
        open_transaction(database, *(f"select count(*) from {name}" for (name,) in names)),
        real_dbt(database, "build", "--exclude-resource-type", "unit_test") as command,
    ):
        assert command.wait() == 0, command.said


def test_readers_pass_while_a_changed_view_waits_for_its_lock(database: Database) -> None:
    change_view(database)
    with (
        open_transaction(database, f"select count(*) from {VIEW}") as (reader, _),
        real_dbt(database, "run", "--select", "fct_factor_components") as command,
    ):
        wait_until_one_waits(reader)
        with database.connect() as other:
            other.execute(f"set statement_timeout to '{PATIENCE_SECONDS}s'")
            assert other.execute(f"select count(*) from {VIEW}").fetchone() == (0,)
        reader.execute("rollback")
        assert command.wait() == 0, command.said
    with database.connect() as connection:
        assert connection.execute(f"select count(*) > 0 from {VIEW}").fetchone() == (True,)


def test_changed_view_that_stays_locked_names_the_session_in_the_way(database: Database) -> None:
    change_view(database)
    with open_transaction(database, f"select count(*) from {VIEW}") as (_, pid):
        outcome = plain_dbt(database, "run", "--select", "fct_factor_components", ciris_lock_wait_seconds=1)
    assert not outcome.succeeded
    expected = [
        '"ciris"."fct_factor_components" cannot be changed: ',
        f"Database process {pid} of user postgres (application dashboard) has locked it",
        "state idle in transaction, transaction open since 20",
        f"last query: select count(*) from {VIEW}.",
        f"select pg_terminate_backend({pid});",
        "ciris_lock_wait_seconds (now 1)",
    ]
    assert [text for text in expected if text not in outcome.said] == [], outcome.said


LOCKED = {
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
"""Changes, other than to a view, that need a lock which excludes readers: relation and preparing statement."""


@pytest.mark.parametrize("case", LOCKED)
def test_locked_relation_names_the_session_in_the_way(database: Database, case: str) -> None:
    name, change = LOCKED[case]
    with database.connect() as connection:
        connection.execute(change)
        relation, schema = connection.execute(
            "select oid::regclass::text, relnamespace::regnamespace::text from pg_class"
            " where relname = %s and relnamespace::regnamespace::text like 'ciris%%'",
            [name],
        ).fetchall()[0]
    with open_transaction(database, f"select count(*) from {relation}") as (_, pid):
        options = ["--full-refresh"] if case.startswith("full") else []
        selected = "+int_scoring_run" if name == "int_source_periods" else name
        outcome = plain_dbt(
            database,
            "build",
            "--select",
            selected,
            *options,
            ciris_lock_wait_seconds=1,
            ciris_allow_rescoring=True,
        )
    assert not outcome.succeeded
    assert f'"{schema}"."{name}" cannot be changed: Database process {pid} of user postgres' in outcome.said


# --- what a run waits for --------------------------------------------------------------------------------------------


def real_run(database: Database, *options: str) -> Command:
    return Command(PROGRAMS / "ciris-scoring", "run", *at(database), "--as-of", NEWEST, *options)


def test_run_says_which_session_it_waits_for(database: Database) -> None:
    """Another session builds an index on a table or reads a view that has changed."""
    with database.connect() as connection:
        connection.execute(f"update {SCHEMA}_intermediate.int_runs set state_digest = null")
    lock = f"lock table {SCHEMA}_intermediate.int_trace_checks in share mode"
    with open_transaction(database, lock) as (blocker, pid), real_run(database) as command:
        command.wait_until_said(
            rf"Waiting for \d+ s: ciris_intermediate.int_trace_checks is locked by database process {pid} of user "
            rf"postgres \(application dashboard\), state idle in transaction, transaction open since 20\d\d-.* UTC, "
            rf"last query: {lock}\n"
        )
        blocker.execute("rollback")
        assert command.wait() == 0, command.said
        assert command.said.count("Waiting for") == 1


def test_run_says_who_reads_a_view_that_it_replaces(database: Database) -> None:
    change_view(database)
    with (
        open_transaction(database, f"select count(*) from {VIEW}") as (reader, pid),
        real_run(database) as command,
    ):
        command.wait_until_said(
            rf"Waiting for \d+ s: {VIEW} is locked by database process {pid} of user postgres \(application dashboard\)"
        )
        reader.execute("rollback")
        assert command.wait() == 0, command.said
