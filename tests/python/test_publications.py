"""Tests of a publication of all tables for logical replication, which requires that deleted rows can be identified."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ciris_scoring.lab.embedded import SCHEMA, write_profile
from conftest import Database
from event_lens import AS_EVENTS, write_as_events
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows, score
from test_bad_input import dbt

SECOND = START + timedelta(days=6)
# Tables from which PostgreSQL would refuse to delete.
NAMELESS = """
select c.oid::regclass::text
from pg_class as c
where
    c.relkind in ('r', 'p')
    and c.relnamespace = any(%s::regnamespace[])
    and (c.relreplident = 'n' or (
        c.relreplident = 'd' and not exists (select from pg_index as i where c.oid = i.indrelid and i.indisprimary)
    ))
"""


@pytest.mark.parametrize("source", ["traces", "events"])
def test_runs_go_on_when_all_tables_are_published(every_database: Database, source: str) -> None:
    """From the first run on, with incremental runs, a full refresh and plain dbt."""
    database = every_database
    variables = AS_EVENTS if source == "events" else {}
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(4, days=7))
        if source == "events":
            write_as_events(connection)
            # The tables of a lens have keys. Those of the tests have none, so that they can store any row.
            connection.execute("alter table cirislens.trace_events replica identity full")
        connection.execute("create publication everything for all tables")
    for days in (5, 6):
        score(database.profiles_dir, START + timedelta(days=days), variables)
    score(database.profiles_dir, SECOND, variables, full_refresh=True, allow_rescoring=True)
    with database.connect() as connection:
        schemas = [f"{SCHEMA}{suffix}" for suffix in ("", "_staging", "_intermediate")]
        assert connection.execute(NAMELESS, [schemas]).fetchall() == []
    write_profile(database.profiles_dir, database.server, database=database.name, schema="plain")
    for as_of in (START + timedelta(days=5), SECOND):
        outcome = dbt(database, "build", variables={**variables, "ciris_as_of": as_of.isoformat()})
        assert outcome.succeeded, outcome.said


def test_a_table_of_an_earlier_version_gets_a_replica_identity(database: Database) -> None:
    """The table was created before it had a key."""
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(4, days=7))
        score(database.profiles_dir, START + timedelta(days=5))
        connection.execute(
            f"""
            alter table {SCHEMA}.dim_capacity_categories drop constraint dim_capacity_categories_pkey;
            alter table {SCHEMA}_staging.stg_cirislens__incomplete_event_traces replica identity default;
            alter table {SCHEMA}_intermediate.components replica identity default;
            create publication everything for all tables
            """
        )
        outcome = dbt(database, "build", variables={"ciris_as_of": SECOND.isoformat()})
        assert outcome.succeeded, outcome.said
