"""Tests of a hostile database. The results must equal those of the same fleet in an ordinary database.

The database sorts and changes case by Turkish rules, and publishes all tables for logical replication. The schemas of
the search path have functions and operators that PostgreSQL would prefer to its own. The scoring role inherits settings
that change values or stop a run. dbt's own statements run with these settings, so the profile names the search path, as
docs/installing.md says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.database.connection import LIMITS_NOT_TO_INHERIT, connect
from ciris_scoring.database.project import load_project
from ciris_scoring.database.source_schema import create_source_tables
from ciris_scoring.errors import DatabaseError
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import command, succeeded
from conftest import REPOSITORY, Database, fresh_database
from nasty_fleet import START, nasty_fleet
from other_roles import Roles, two_roles
from pipeline import RUN_TIMES, load_rows, score
from serving import SCORING, asking
from signed_batches import MIDDLE, Agent, batch
from test_bad_input import dbt, marts
from test_load import write, write_keys

AS_OFS = (START + timedelta(days=10), START + timedelta(days=13))
SALT = {"ciris_scoring_parameters": {"replay_sample_salt": "a\\'b\\n", "replay_sample_per_period": 3}}
SCHEMAS = [f"{SCHEMA}{suffix}" for suffix in ("", "_staging", "_intermediate")]
# Turkish has a dotted and a dotless i. The locale ignores punctuation, as locales of Linux do, and sorts digits as
# numbers.
LOCALE = "tr-TR-u-ka-shifted-kn"
# Some of the settings exist only in versions after PostgreSQL 15.
SETTINGS = {
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
    "search_path": f"public, {SCHEMA}, pg_catalog",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "20s",
    "lock_timeout": "1ms",
    "transaction_timeout": "20s",
    "temp_file_limit": "0",
    "restrict_nonsystem_relation_kind": 'view, "foreign-table"',
    "tcp_user_timeout": "1ms",
}
LISTS = ("search_path", "restrict_nonsystem_relation_kind")
# PostgreSQL prefers these functions and operators to those of pg_catalog, although pg_catalog is first in the search
# path, because the types of their arguments match better.
BETTER = """
create function {schema}.array_remove(text[], text) returns text[] language plpgsql as $$ {body} $$;
create function {schema}.num_nulls(text, numeric, numeric) returns integer language plpgsql as $$ {body} $$;
create function {schema}.num_nulls(text, variadic numeric[]) returns integer language plpgsql as $$ {body} $$;
create function {schema}.unnest(text[]) returns setof text language plpgsql as $$ {body} $$;
create function {schema}.format(text, text, text) returns text language plpgsql as $$ {body} $$;
create function {schema}.upper(name) returns text language plpgsql as $$ {body} $$;
create function {schema}.planted(name, name) returns boolean language plpgsql as $$ {body} $$;
create operator {schema}.~~* (function = {schema}.planted, leftarg = name, rightarg = name);
create operator {schema}.!~~ (function = {schema}.planted, leftarg = name, rightarg = name);
create function {schema}.planted(varchar, varchar) returns boolean language plpgsql as $$ {body} $$;
create operator {schema}.= (function = {schema}.planted, leftarg = varchar, rightarg = varchar);
create operator {schema}.<> (function = {schema}.planted, leftarg = varchar, rightarg = varchar);
create domain {schema}.text as text check (false);
create domain {schema}.jsonb as jsonb check (false);
create collation {schema}."C" (locale = 'POSIX');
create table {schema}.ciris_rows ();
create table {schema}.ciris_statistics ();
create table {schema}.pg_class ();
"""
STOP = "begin raise exception 'planted code runs as %', current_user; end"


def fleet() -> dict[str, list[dict[str, Any]]]:
    """Return a random fleet with actions, statuses, names and trace ids that other locales treat differently."""
    found = nasty_fleet(3, days=13)
    names = {"Bob": "bob", "Ann": "ann", " ": "Zoë"}
    for number, row in enumerate(found["covenant_traces"]):
        if number % 2:
            row["agent_name"] = names.get(row["agent_name"], row["agent_name"])
        if number % 3 == 0 and row["selected_action"]:
            row["selected_action"] = "handleractiontype.memorize"
        if number % 5 == 0 and row["trace_id"]:
            row["trace_id"] = row["trace_id"].upper()
    for number, row in enumerate(found["wbd_deferrals"]):
        if number % 2 and row["status"]:
            row["status"] = row["status"].lower()
    return found


def inherit(connection: psycopg.Connection, role: str) -> None:
    """Make a role inherit the hostile settings that the server knows."""
    for name, value in SETTINGS.items():
        known = connection.execute("select from pg_settings where lower(name) = lower(%s)", [name])
        if known.fetchone() is not None:
            setting = sql.SQL(value) if name in LISTS else sql.Literal(value)
            statement = sql.SQL("alter role {} in database {} set {} to {}")
            connection.execute(
                statement.format(*map(sql.Identifier, (role, connection.info.dbname)), sql.Identifier(name), setting)
            )


@pytest.fixture(scope="module")
def turkish(system_postgres: Server) -> Iterator[str]:
    """Name of an empty database with a Turkish locale, used as a template."""
    with psycopg.connect(system_postgres.conninfo("postgres"), autocommit=True) as connection:
        try:
            connection.execute(
                "create database turkish template template0 encoding 'UTF8'"
                f" locale_provider icu icu_locale '{LOCALE}' locale 'C'"
            )
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("the PostgreSQL that is installed on the system was built without ICU")
        yield "turkish"
        connection.execute("drop database turkish")


@pytest.fixture(scope="module")
def hostile(system_postgres: Server, turkish: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    """The hostile database with the fleet, scored by the command and then by plain dbt.

    Because all tables are published for logical replication, PostgreSQL refuses to delete from a table that has neither
    a primary key nor a replica identity. The second run deletes from all tables that runs write.
    """
    with two_roles(system_postgres, tmp_path_factory.mktemp("hostile"), turkish) as roles:
        profile = roles.database.profiles_dir / "profiles.yml"
        profile.write_text(profile.read_text().replace("threads: 4", "threads: 4\n      search_path: pg_catalog"))
        with roles.database.connect() as connection:
            load_rows(connection, fleet())
            connection.execute(
                f"""
                create schema {SCHEMA} authorization {roles.scorer};
                grant set on parameter temp_file_limit to {roles.scorer};
                create publication everything for all tables;
                """
            )
            roles.grant_sources(connection)
            for schema in ("public", SCHEMA):
                connection.execute(BETTER.replace("{schema}", schema).replace("{body}", STOP))
            inherit(connection, roles.scorer)
            connection.execute(f"alter database {roles.database.name} set search_path to pg_catalog")
        with (
            psycopg.connect(f"{roles.database.conninfo} user={roles.scorer}", autocommit=True) as connection,
            pytest.raises(psycopg.errors.RaiseException, match="planted code runs as scorer_"),
        ):
            connection.execute("select unnest(array['x'])")
        score(roles.database.profiles_dir, AS_OFS[0], SALT)
        succeeded(dbt(roles.database, "build", variables={**SALT, "ciris_as_of": AS_OFS[1].isoformat()}))
        yield roles


@pytest.fixture(scope="module")
def ordinary(system_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """An ordinary database with the fleet of the hostile database, scored twice."""
    with fresh_database(system_postgres, tmp_path_factory.mktemp("ordinary")) as database:
        with database.connect() as connection:
            load_rows(connection, fleet())
        for as_of in AS_OFS:
            score(database.profiles_dir, as_of, SALT)
        yield database


def rows(database: Database) -> dict[str, str]:
    """Return the fingerprints of all relations, without the times of runs."""
    found = marts(database, schemas=SCHEMAS, without=RUN_TIMES)
    return {name: text for name, text in found.items() if not name.endswith(("int_scoring_run", "int_built"))}


@pytest.mark.slow
def test_every_row_equals_that_of_an_ordinary_database(hostile: Roles, ordinary: Database) -> None:
    expected, found = rows(ordinary), rows(hostile.database)
    assert len(expected) > 45 and expected.keys() == found.keys()
    assert [name for name in expected if expected[name] != found[name]] == []
    with hostile.database.connect() as connection:
        [[upper]] = connection.execute("select upper('action_i')").fetchall()
        assert upper == "ACTİON_İ"
        actions = f"select distinct selected_action from {SCHEMA}_intermediate.int_trace_checks"
        assert ("MEMORIZE",) in connection.execute(actions).fetchall()


def test_commands_of_dbt_that_read_the_catalog_run_no_planted_code(hostile: Roles) -> None:
    database = hostile.database
    variables = {**SALT, "ciris_as_of": AS_OFS[-1].isoformat()}
    for name, action in (("source", "freshness"), ("docs", "generate")):
        outcome = dbt(database, name, action, variables=variables)
        assert "planted" not in outcome.output, outcome.output
        assert outcome.exit_code == 0 or action == "freshness", outcome.output


def test_views_run_no_planted_code_for_a_superuser(hostile: Roles) -> None:
    with hostile.database.connect() as connection:
        views = connection.execute(
            "select relnamespace::regnamespace::text, relname from pg_class"
            " where relkind = 'v' and relnamespace = any(%s::regnamespace[])",
            [SCHEMAS],
        ).fetchall()
        assert len(views) > 10
        connection.execute("set search_path to public, ciris, pg_catalog")
        for view in views:
            connection.execute(sql.SQL("select * from {}").format(sql.Identifier(*view)))


def test_every_command_succeeds_in_a_hostile_database(hostile: Roles, tmp_path: Path) -> None:
    """`audit` ignores case, blanks and prefixes of actions, which differ between this database and the batches."""
    agent = Agent(MIDDLE, 7)
    write(tmp_path, "a.json", batch([agent.trace() for _ in range(5)]))
    keys = write_keys(tmp_path, agent)
    database, loaded = hostile.database, ("--vars", "{ciris_source_schema: loaded}")
    simulated = ("--agents", 3, "--days", 2, "--vars", "{ciris_source_schema: simulated}")
    succeeded(command(database, "simulate", *simulated))
    succeeded(command(database, "check"))
    succeeded(command(database, "report", "--output", tmp_path / "report.html"))
    succeeded(command(database, "load", tmp_path, "--keys", keys, *loaded))
    database.execute(
        "update loaded.covenant_traces set selected_action"
        " = ' handleractiontype.' || lower(regexp_replace(selected_action, '^.*[.]', '') collate \"C\")"
    )
    succeeded(command(database, "audit", tmp_path, "--keys", keys, *loaded))
    with asking(database) as client:
        assert client.get(f"{SCORING}/capacity/fleet").status_code == 200
        assert client.get("/").status_code == 200


def test_column_with_a_nondeterministic_collation_is_refused(hostile: Roles) -> None:
    with hostile.database.connect() as connection:
        create_source_tables(connection, "caseless")
        connection.execute(
            f"""
            create collation public.caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
            alter table caseless.covenant_traces
                alter agent_name type pg_catalog.text collate public.caseless,
                add model pg_catalog.text collate public.caseless,
                add deployment_type integer;
            grant usage on schema caseless to {hostile.scorer};
            grant select on all tables in schema caseless to {hostile.scorer};
            """
        )
    refused = command(hostile.database, "check", "--vars", "{ciris_source_schema: caseless}")
    assert refused.exit_code == 1
    said = " ".join(refused.output.split())
    expected = r'agent_name is \S+ collate \S+ and must be text: "agent_name"::text collate "C"'
    assert re.search(expected, said), said
    assert 'deployment_type is integer and must be text: "deployment_type"::text' in said and "; model is" not in said


def test_run_lifts_limits_and_names_a_limit_that_it_may_not_lift(hostile: Roles, tmp_path: Path) -> None:
    profile = (hostile.database.profiles_dir / "profiles.yml").read_text()
    (tmp_path / "profiles.yml").write_text(profile.replace(hostile.scorer, hostile.mallory))
    with hostile.database.connect() as connection:
        inherit(connection, hostile.mallory)
    project = load_project(REPOSITORY, tmp_path)
    many_rows = "select count(*) from (select n from generate_series(1, 100000) as n order by -n offset 1) as rows"
    with (
        pytest.raises(DatabaseError, match="temp_file_limit") as failed,
        connect(project) as connection,
        connection.transaction(),
    ):
        for name in LIMITS_NOT_TO_INHERIT:
            if name.endswith("timeout"):
                [[value]] = connection.execute("select current_setting(%s, true)", [name]).fetchall()
                assert value in ("0", None), name
        connection.execute("set work_mem to '64kB'")
        connection.execute(many_rows)
    assert "alter role ROLE set temp_file_limit = -1" in failed.value.hint
