"""Tests of objects in the target schemas by which another role could run code as the scoring role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ciris_scoring.audit.store import VERIFICATION_TABLE
from ciris_scoring.database.connection import connect
from ciris_scoring.database.ownership import ownership_faults
from ciris_scoring.database.project import load_project
from ciris_scoring.database.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab.embedded import Server
from command_line import at, command, invoke, refused, succeeded
from conftest import REPOSITORY
from other_roles import Roles, two_roles
from pipeline import MARTS
from signed_batches import NEW, Agent, batch
from test_bad_input import dbt, refusal
from test_load import write, write_keys

SCHEMAS = "create schema ciris authorization {scorer}; create schema ciris_intermediate authorization {scorer};"
CODE = """
create table public.ran_as (role text);
grant insert on public.ran_as to public;
create function public.planted() returns trigger language plpgsql as
$$ begin insert into public.ran_as values (current_user); return new; end $$;
alter function public.planted owner to {mallory};
grant pg_read_all_settings to {mallory};
grant pg_monitor to {scorer};
"""
OF_SCORER = "alter table {t} owner to {scorer};"
OF_MALLORY = "alter table {t} owner to {mallory};"
EMPTY = "create table {t} ();"
TABLE = "create table {t} (run_id uuid primary key, command text);" + OF_SCORER
LOG = "ciris_intermediate.int_runs"
OWNED = "Table {t} is owned by {mallory}."
TRIGGER = "create trigger mine before insert or update or delete on {t} execute function public.planted();"
IN_PLACE_OF_TABLE = "create view {t} as select * from (values (1)) as original (a);" + OF_SCORER

CASES = [
    ("alter schema ciris_staging owner to {mallory}", "Schema ciris_staging is owned by {mallory}."),
    ("alter schema ciris_intermediate owner to pg_read_all_settings",
     "Schema ciris_intermediate is owned by pg_read_all_settings, as which role {mallory} can act."),
    ("grant create on schema ciris to {mallory}", "Role {mallory} has the privilege CREATE on schema ciris."),
    ("grant create on schema ciris to public", "Role PUBLIC has the privilege CREATE on schema ciris."),
    (EMPTY + OF_MALLORY, OWNED),
    (EMPTY, "Table {t} is owned by postgres, as which role {scorer} cannot act."),
    (EMPTY + "alter table {t} owner to pg_monitor", ""),
    ((EMPTY + OF_MALLORY).replace("{t}", "ciris_intermediate.dim_agents__next"),
     OWNED.replace("{t}", "ciris_intermediate.dim_agents__next")),
    ("create view {t} as select 1 as a;" + OF_MALLORY, "View {t} is owned by {mallory}."),
    (TABLE + TRIGGER, "The trigger mine of {t} calls public.planted(), which is owned by {mallory}."),
    (TABLE + "grant trigger on {t} to {mallory}", "Role {mallory} has the privilege TRIGGER on table {t}."),
    (TABLE + "grant select on {t} to {mallory}", ""),
    (TABLE + "grant update on {t} to {mallory}", "Role {mallory} has the privilege UPDATE on table {t}."),
    (TABLE + "grant insert (command) on {t} to public", "Role PUBLIC has the privilege INSERT on table {t}."),
    (TABLE + "grant delete on {t} to pg_read_all_settings",
     "Role pg_read_all_settings has the privilege DELETE on table {t}."),
    (TABLE + "grant truncate on {t} to {mallory}", "Role {mallory} has the privilege TRUNCATE on table {t}."),
    ("create view ciris.permissions as select 1 as a; alter view ciris.permissions owner to {mallory}",
     "View ciris.permissions is owned by {mallory}."),
    (IN_PLACE_OF_TABLE, "View {t} has the name of a table, and rows written into a view go into the tables"),
]  # fmt: skip
"""Statements of a superuser that change the relation {t} of a model, and the message of the refusal, or "" for none."""


@pytest.fixture
def roles(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("owners")) as roles:
        with roles.database.connect() as connection:
            create_source_tables(connection)
            roles.grant_sources(connection)
            connection.execute(roles.filled(CODE + SCHEMAS))
        yield roles
        with roles.database.connect() as connection:
            assert connection.execute("select role from public.ran_as").fetchall() == []


def test_refusal_names_the_object_and_the_remedy_that_removes_it(roles: Roles) -> None:
    """Each case changes the relation of a different model. Then the test executes the remedies of all messages."""
    places = sorted(set(MARTS.places.values()) - {MARTS.places["dim_agents"]})
    cases = list(zip(places, CASES, strict=False))
    assert len(cases) == len(CASES)
    [place_of_table] = [place for place, (change, _) in cases if change == IN_PLACE_OF_TABLE]
    tables = frozenset(name for name, place in MARTS.places.items() if place == place_of_table)
    relations = replace(MARTS, tables=tables)
    project = load_project(REPOSITORY, roles.database.profiles_dir)
    with roles.database.connect() as owner, connect(project) as connection, connection.transaction():
        owner.execute(f"create schema ciris_staging authorization {roles.scorer}")
        for place, (change, _) in cases:
            owner.execute(roles.filled(change, t=place))
        faults = list(ownership_faults(connection, relations))
        expected = {roles.filled(message, t=place) for place, (_, message) in cases if message}
        said = [fault.message for fault in faults]
        assert [text for text in expected if sum(text in one for one in said) != 1] == [], said
        assert [one for one in said if not any(text in one for text in expected)] == []
        for fault in faults:
            owner.execute(str(fault.hint).partition(": ")[2].partition(";")[0])
        assert list(ownership_faults(connection, relations)) == []


def test_a_run_is_refused_before_planted_code_runs(roles: Roles) -> None:
    log = (
        "create table {t} (run_id uuid primary key, started_at timestamptz, command text, as_of timestamptz,"
        " version text);" + TRIGGER + OF_MALLORY + "grant all on {t} to {scorer}"
    )
    with roles.database.connect() as connection:
        connection.execute(roles.filled(log, t=LOG))
    database, message = roles.database, roles.filled(OWNED, t=LOG)
    result = invoke("run", *at(database), "--as-of", "2026-03-04")
    assert result.exit_code == 1 and message in result.output
    checked = invoke("check", *at(database), "--json", "--vars", "{ciris_as_of: 2026-03-04}")
    assert checked.exit_code == 1
    assert any(message in fault["message"] for fault in json.loads(checked.stdout)["faults"])
    for name in ("build", "seed", "test"):
        assert message in refusal(dbt(database, name, variables={"ciris_as_of": "2026-03-04"})), name


def test_load_and_simulation_refuse_planted_tables(roles: Roles, tmp_path: Path) -> None:
    """They write the source tables, so they trust the owner of the schema, but no other role that may create there."""
    agent = Agent(NEW, 1)
    write(tmp_path, "a.json", batch([agent.trace()]))
    load = ("load", tmp_path, "--keys", write_keys(tmp_path, agent))
    simulate = ("simulate", "--agents", 1, "--days", 1)
    database, verification = roles.database, f"cirislens.{VERIFICATION_TABLE}"
    places = [f"cirislens.{name}" for name in (*SOURCE_TABLES, VERIFICATION_TABLE)]
    with database.connect() as owner:

        def change(*statements: str, t: str) -> None:
            for statement in statements:
                owner.execute(roles.filled(statement, t=t))

        owner.execute("drop schema cirislens cascade")
        succeeded(command(database, "init-db"))
        for place in places:
            change(OF_MALLORY, t=place)
            error, hint = refused(command(database, *load))
            assert roles.filled(OWNED, t=place) in error
            assert hint.endswith(roles.filled("alter table {t} owner to {scorer};", t=place))
            if place != verification:
                assert roles.filled(OWNED, t=place) in refused(command(database, *simulate))[0]
            change(OF_SCORER, t=place)
        change(TRIGGER, t=verification)
        error, hint = refused(command(database, *load))
        assert f"of {verification} calls public.planted(), which is owned by {roles.mallory}" in error
        owner.execute(hint.split(": ", 2)[2])
        change("alter table {t} rename to kept", IN_PLACE_OF_TABLE, t=verification)
        error, hint = refused(command(database, *load))
        assert f"View {verification} has the name of a table" in error
        owner.execute(hint.split(": ", 2)[2])
        change("alter schema cirislens owner to {mallory}; grant usage, create on schema cirislens to {scorer}", t="")
        for place in places[:-1]:
            change(OF_MALLORY + "grant all on {t} to {scorer}", t=place)
        succeeded(command(database, *load))
