"""Tests of runs while other sessions (readers, backups, maintenance) hold locks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from ciris_scoring.lab.embedded import SCHEMA
from command_line import succeeded
from conftest import Database
from pipeline import wait_until
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


def test_run_gives_up_when_a_session_keeps_a_relation_locked(restored: Database) -> None:
    """A changed view needs a lock that excludes readers."""
    change_view(restored)
    variables = {"ciris_as_of": NEWEST, "ciris_lock_wait_seconds": 1}
    with open_transaction(restored, f"select count(*) from {VIEW}"):
        said = refusal(dbt(restored, "run", "--select", "fct_factor_components", variables=variables))
    assert "canceling statement due to lock timeout" in said
    succeeded(dbt(restored, "run", "--select", "fct_factor_components", variables=variables))


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
            succeeded(dbt(restored, "run", "--select", "fct_fleet_capacity", variables=variables))
        finally:
            connection.execute(naptime.format("reset", ""))
            connection.execute("select pg_reload_conf()")
