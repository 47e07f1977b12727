"""Tests of settings that a session inherits from its role and database: none may change a number or stop a run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA, write_profile
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import create_loose_sources, differences_from_reference, load_rows, score, table_differences
from test_bad_input import dbt

# Some of the settings exist only since PostgreSQL 15. Any role can set them.
HOSTILE = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Australia/Lord_Howe",
    "timezone_abbreviations": "Australia",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "xmloption": "document",
    "client_encoding": "SQL_ASCII",
    "search_path": "traps, pg_catalog, pg_temp",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "default_transaction_read_only": "on",
    "statement_timeout": "20s",
    "lock_timeout": "1ms",
    "transaction_timeout": "20s",
    "idle_in_transaction_session_timeout": "1s",
    "idle_session_timeout": "1s",
    "temp_file_limit": "0",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "tcp_user_timeout": "1ms",
}
# Objects that a search path can find before PostgreSQL's functions and before temporary tables.
TRAPS = """
create schema traps;
create function traps.md5(text) returns text language sql as $$ select repeat('0', 32) $$;
create table traps.ciris_differences ();
create table traps.ciris_results ();
"""
# dbt creates missing schemas before the project can set anything.
SCHEMAS = "create schema plain; create schema plain_staging; create schema plain_intermediate;"
SALT = {"ciris_scoring_parameters": {"replay_sample_salt": "a\\'b\\n", "replay_sample_per_period": 3}}
AS_OFS = (START + timedelta(days=10), START + timedelta(days=13))


@pytest.fixture
def hostile_role(database: Database) -> Iterator[str]:
    """A role with all hostile settings. They apply from the call on, and to the database as well."""
    role = f"hostile_{uuid.uuid4().hex[:12]}"
    places = [
        sql.SQL("role {}").format(sql.Identifier(role)),
        sql.SQL("database {}").format(sql.Identifier(database.name)),
    ]
    with database.connect() as connection:
        connection.execute(TRAPS + SCHEMAS)
        connection.execute(f"create role {role} superuser login")
        for name, value in HOSTILE.items():
            known = connection.execute("select from pg_settings where lower(name) = lower(%s)", [name])
            if known.fetchone() is None:  # unknown in this version
                continue
            is_list = name in ("search_path", "restrict_nonsystem_relation_kind")
            setting = (
                sql.SQL(value.replace("foreign-table", '"foreign-table"')) if is_list else sql.Literal(value)
            )
            for place in places:
                connection.execute(
                    sql.SQL("alter {} set {} to {}").format(place, sql.Identifier(name), setting)
                )
    yield role
    with friendly(database) as connection:
        connection.execute(f"reassign owned by {role} to postgres; drop role {role}")


def friendly(database: Database) -> psycopg.Connection:
    """Open a connection without inherited settings."""
    with psycopg.connect(database.server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"alter database {database.name} reset all")
    return database.connect()


def write_target(database: Database, role: str, schema: str) -> None:
    path = write_profile(database.profiles_dir, database.server, database=database.name, schema=schema)
    path.write_text(path.read_text().replace("user: postgres", f"user: {role}"))


def test_inherited_settings_change_no_number(database: Database, request: pytest.FixtureRequest) -> None:
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(6, days=13))
    for as_of in AS_OFS:
        score(database.profiles_dir, as_of, SALT)

    role = request.getfixturevalue("hostile_role")
    write_target(database, role, "hostile")
    for as_of in AS_OFS:
        score(database.profiles_dir, as_of, SALT)
    write_target(database, role, "plain")
    variables = {**SALT, "ciris_as_of": AS_OFS[-1].isoformat()}
    plain = dbt(database, "build", variables=variables)
    assert plain.succeeded, plain.said

    with friendly(database) as connection:
        assert table_differences(connection, SCHEMA, "hostile") == []
        assert table_differences(connection, SCHEMA, "plain") == []
        parameters = SALT["ciris_scoring_parameters"]
        assert differences_from_reference(connection, "hostile", AS_OFS[-1], parameters=parameters) == []


def test_models_need_transactions(database: Database) -> None:
    """Without transactions (dbt's autocommit) a reader could see a half-built model."""
    with database.connect() as connection:
        create_loose_sources(connection)
    path = database.profiles_dir / "profiles.yml"
    path.write_text(path.read_text() + "      autocommit: true\n")
    outcome = dbt(database, "build", variables={"ciris_as_of": "2026-06-15"})
    assert not outcome.succeeded
    assert "Target dev has autocommit: true" in outcome.said


# --- time limits -----------------------------------------------------------------------------------------------------


def test_limit_that_a_role_may_not_lift_is_named(every_database: Database) -> None:
    role = f"limited_{uuid.uuid4().hex[:12]}"
    with every_database.connect() as connection:
        connection.execute(f"create role {role} login; alter role {role} set temp_file_limit = 0")
    write_target(every_database, role, SCHEMA)
    project = load_project(REPOSITORY, every_database.profiles_dir)
    many_rows = (
        "select count(*) from (select n from generate_series(1, 100000) as n order by -n offset 1) as rows"
    )
    try:
        with pytest.raises(DatabaseError, match="temp_file_limit") as failed, connect(project) as connection:
            connection.execute("set work_mem to '64kB'")
            connection.execute(many_rows)
        assert "alter role ROLE set temp_file_limit = -1" in failed.value.hint
    finally:
        with every_database.connect() as connection:
            connection.execute(f"drop role {role}")
