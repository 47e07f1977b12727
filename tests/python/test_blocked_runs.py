"""Tests of runs while other sessions (readers, backups, maintenance) hold locks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from ciris_scoring.basics.run_lock import START_LOCK
from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab.embedded import SCHEMA
from command_line import PROGRAMS, Command, at
from conftest import Database
from pipeline import PATIENCE_SECONDS, wait_until
from test_bad_input import dbt, refusal

NEWEST = SCORED_UNTIL = "2026-06-15T00:00:00Z"
VIEW = f"{SCHEMA}.fct_factor_components"


@contextlib.contextmanager
def open_transaction(database: Database, *statements: str) -> Iterator[tuple[psycopg.Connection, int]]:
    """Execute statements in a transaction that stays open and idle, and yield its connection and process id."""
    with database.connect() as connection:
        connection.execute("set application_name to 'dashboard'")
        connection.execute("begin")
        for statement in statements:
            connection.execute(statement)
        yield connection, connection.info.backend_pid


def change_view(database: Database) -> None:
    """Replace the view VIEW by a view with the same columns and another definition."""
    database.execute(
        f"alter view {VIEW} rename to fct_factor_components_as_it_was;"
        f"create view {VIEW} as select * from {VIEW}_as_it_was where false"
    )


# --- locks that exclude readers --------------------------------------------------------------------------------------


def test_message_names_the_session_that_locks_a_relation(restored: Database) -> None:
    """A changed view and a full refresh of a table need a lock that excludes readers."""
    change_view(restored)
    table = f"{SCHEMA}_intermediate.int_scoring_run"
    last = f"select count(*) from {VIEW}"
    variables = {"ciris_as_of": NEWEST, "ciris_lock_wait_seconds": 1, "ciris_allow_rescoring": True}
    with open_transaction(restored, f"select count(*) from {table}", last) as (_, pid):
        replaced = dbt(restored, "run", "--select", "fct_factor_components", variables=variables)
        options = ("--full-refresh", "--select", "+int_scoring_run")
        refreshed = dbt(restored, "build", *options, variables=variables)
    for outcome, relation in ((replaced, VIEW), (refreshed, table)):
        said = refusal(outcome)
        quoted = '"' + relation.replace(".", '"."') + '"'
        for text in (
            f"{quoted} cannot be changed: Database process {pid} of user postgres (application dashboard)",
            "state idle in transaction, transaction open since 20",
            f"last query: {last}.",
            f"select pg_terminate_backend({pid});",
            "ciris_lock_wait_seconds (now 1)",
        ):
            assert text in said, said


def test_run_does_not_wait_for_an_autovacuum(restored: Database) -> None:
    """A slow autovacuum works on a staging table that a run has left. PostgreSQL cancels it for a waiting statement."""
    staging = f"{SCHEMA}_intermediate.fct_fleet_capacity__next"
    at_work = "select 1 from pg_stat_activity where query ~ '^autovacuum: .*fct_fleet_capacity__next'"
    naptime = "alter system {} autovacuum_naptime {}"
    with restored.connect() as connection:
        connection.execute(
            f"""
            create table {staging} with (
                autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 0
            ) as
            select n, repeat('x', 500) as x from generate_series(1, 50000) as n;
            delete from {staging}
            """
        )
        connection.execute(naptime.format("set", "to 1"))
        try:
            connection.execute("select pg_reload_conf()")
            wait_until(lambda: connection.execute(at_work).fetchone())
            variables = {"ciris_as_of": NEWEST, "ciris_lock_wait_seconds": 5}
            outcome = dbt(restored, "run", "--select", "fct_fleet_capacity", variables=variables)
            assert outcome.succeeded, outcome.said
        finally:
            connection.execute(naptime.format("reset", ""))
            connection.execute("select pg_reload_conf()")


# --- locks that a run waits for --------------------------------------------------------------------------------------


def test_waiting_run_names_the_lock_and_does_not_block_readers(restored: Database) -> None:
    """During the run, two sessions read all relations, including a changed view, and a third session locks a table."""
    change_view(restored)
    names = restored.execute(
        "select oid::regclass::text from pg_class where relkind in ('r', 'v')"
        " and relnamespace::regnamespace::text = %s and oid <> %s::regclass",
        [SCHEMA, VIEW],
    )
    lock = f"lock table {SCHEMA}_intermediate.int_trace_checks in share mode"
    reads = [f"select count(*) from {name}" for (name,) in names if not name.endswith("_as_it_was")]
    real_run = Command(PROGRAMS / "ciris-scoring", "run", *at(restored), "--as-of", NEWEST)
    with (
        open_transaction(restored, *reads),
        open_transaction(restored, f"select count(*) from {VIEW}") as (reader, reads_view),
        open_transaction(restored, lock) as (blocker, pid),
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
        with restored.connect() as other:
            other.execute(f"set statement_timeout to '{PATIENCE_SECONDS}s'")
            assert other.execute(f"select count(*) from {VIEW}").fetchone() == (0,)
        reader.execute("rollback")
        assert command.wait() == 0, command.said
    assert restored.execute(f"select count(*) > 0 from {VIEW}") == [(True,)]


def test_plain_dbt_names_the_session_that_holds_its_lock_and_gives_up(database: Database) -> None:
    """Any role that may connect can take the lock under which the first run creates the log."""
    with database.connect() as holder:
        create_source_tables(holder)
        holder.execute("select pg_advisory_lock(hashtext(%s), hashtext(%s))", [START_LOCK, SCHEMA])
        plain = dbt(database, "build", variables={"ciris_as_of": NEWEST, "ciris_lock_wait_seconds": 1})
        pid = holder.info.backend_pid
        assert not plain.succeeded
        assert f"Database process {pid} of user postgres holds a lock that this run needs" in plain.said
        assert f"select pg_terminate_backend({pid})" in plain.said
