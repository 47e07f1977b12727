"""Tests of objects in the target schemas by which another role could run code as the scoring role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.ownership import ownership_faults
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab.embedded import Server
from command_line import at, invoke
from conftest import REPOSITORY, Database
from other_roles import Roles, two_roles
from pipeline import MARTS
from test_bad_input import dbt

AS_OF = "2026-03-04"
SCHEMAS = (
    "create schema ciris authorization {scorer}; create schema ciris_intermediate authorization {scorer};"
)
LOG = (
    "create table ciris_intermediate.int_runs (run_id uuid primary key, started_at timestamptz, command text,"
    " as_of timestamptz, version text);"
)
OF_SCORER = "alter table ciris_intermediate.int_runs owner to {scorer};"
OF_MALLORY = "alter table ciris_intermediate.int_runs owner to {mallory};"
CODE = """
create table public.ran_as (role text);
grant insert on public.ran_as to public;
create function public.planted() returns trigger language plpgsql as
$$ begin insert into public.ran_as values (current_user); return new; end $$;
alter function public.planted owner to {mallory};
create domain public.planted_domain as text check (value <> 'mine');
alter domain public.planted_domain owner to {mallory};
create function public.planted_text(text) returns text language sql immutable as 'select $1';
alter function public.planted_text owner to {mallory};
create function public.planted_value() returns uuid language plpgsql as
$$ begin insert into public.ran_as values (current_user); return gen_random_uuid(); end $$;
alter function public.planted_value owner to {mallory};
"""
TRIGGER = (
    "create trigger mine before insert or update or delete on ciris_intermediate.int_runs"
    " execute function public.planted();"
)
FULL_LOG = (
    LOG + OF_SCORER + "grant select, insert, update, delete on ciris_intermediate.int_runs to {scorer};"
)


@dataclass(frozen=True)
class Case:
    """Statements of a superuser, and the expected refusal and remedy. Without a message the run must not be refused."""

    change: str
    message: str = ""
    remedy: str = ""


CASES = {
    "schema of another role": Case(
        "create schema ciris authorization {mallory}; grant usage, create on schema ciris to {scorer}",
        "Schema ciris is owned by {mallory}.",
        "alter schema ciris owner to {scorer};",
    ),
    "schema of a group that another role is in": Case(
        "create schema ciris authorization pg_read_all_settings; grant usage, create on schema ciris to {scorer};"
        "grant pg_read_all_settings to {mallory}",
        "Schema ciris is owned by pg_read_all_settings, as which role {mallory} can act.",
        "alter schema ciris owner to {scorer};",
    ),
    "schema of a superuser": Case("create schema ciris; grant usage, create on schema ciris to {scorer}"),
    "schema of a role that the scorer alone is in": Case(
        "create schema ciris authorization pg_read_all_settings; grant pg_read_all_settings to {scorer}"
    ),
    "schema of a member of the scorer": Case(
        "create schema ciris authorization {mallory}; grant usage, create on schema ciris to {scorer};"
        "grant {scorer} to {mallory}"
    ),
    "create granted": Case(
        SCHEMAS + "grant create on schema ciris to {mallory}",
        "Role {mallory} has the privilege create on schema ciris.",
        "revoke create on schema ciris from {mallory};",
    ),
    "create granted to everybody": Case(
        SCHEMAS + "grant create on schema ciris_intermediate to public",
        "Role PUBLIC has the privilege create on schema ciris_intermediate.",
        "revoke create on schema ciris_intermediate from PUBLIC;",
    ),
    "planted log with a trigger": Case(
        SCHEMAS + LOG + TRIGGER + OF_MALLORY + "grant all on ciris_intermediate.int_runs to {scorer}",
        "Table ciris_intermediate.int_runs is owned by {mallory}.",
        "drop table ciris_intermediate.int_runs; or, if you know where it comes from: "
        "alter table ciris_intermediate.int_runs owner to {scorer};",
    ),
    "log of a superuser": Case(
        SCHEMAS + LOG + "grant all on ciris_intermediate.int_runs to {scorer}",
        "Table ciris_intermediate.int_runs is owned by postgres, as which role {scorer} cannot act.",
        "alter table ciris_intermediate.int_runs owner to {scorer};",
    ),
    "trigger": Case(
        SCHEMAS + FULL_LOG + TRIGGER,
        "Trigger mine of table ciris_intermediate.int_runs calls public.planted(), a function that is owned by"
        " {mallory}.",
        "drop trigger mine on ciris_intermediate.int_runs;",
    ),
    "constraint": Case(
        SCHEMAS + FULL_LOG + "alter table ciris_intermediate.int_runs"
        " add constraint mine check (public.planted_value() is not null)",
        "Constraint mine of table ciris_intermediate.int_runs calls public.planted_value(), a function that is owned by"
        " {mallory}.",
        "alter table ciris_intermediate.int_runs drop constraint mine;",
    ),
    "default": Case(
        SCHEMAS
        + FULL_LOG
        + "alter table ciris_intermediate.int_runs alter run_id set default planted_value()",
        "The default of column run_id of table ciris_intermediate.int_runs calls public.planted_value(), a function"
        " that is owned by {mallory}.",
        "alter table ciris_intermediate.int_runs drop column run_id;",
    ),
    "index": Case(
        SCHEMAS
        + FULL_LOG
        + "create index mine on ciris_intermediate.int_runs (public.planted_text(command))",
        "Index ciris_intermediate.mine calls public.planted_text(text), a function that is owned by {mallory}.",
        "drop index ciris_intermediate.mine;",
    ),
    "domain of a column": Case(
        SCHEMAS
        + FULL_LOG
        + "alter table ciris_intermediate.int_runs alter version type public.planted_domain",
        "Table ciris_intermediate.int_runs uses public.planted_domain, a type that is owned by {mallory}.",
        "drop table ciris_intermediate.int_runs;",
    ),
    "right to make triggers": Case(
        SCHEMAS + FULL_LOG + "grant trigger on ciris_intermediate.int_runs to {mallory}",
        "Role {mallory} has the privilege trigger on table ciris_intermediate.int_runs.",
        "revoke trigger on table ciris_intermediate.int_runs from {mallory};",
    ),
    "right to refer to columns": Case(
        SCHEMAS + FULL_LOG + "grant references (run_id) on ciris_intermediate.int_runs to {mallory}",
        "Role {mallory} has the privilege references on columns of ciris_intermediate.int_runs.",
        "revoke all on ciris_intermediate.int_runs from {mallory};",
    ),
    "planted view": Case(
        SCHEMAS
        + "create view ciris_intermediate.int_runs as select public.planted_value() as run_id, now() as started_at,"
        " null::text as command, null::timestamptz as as_of, null::text as version;"
        + OF_MALLORY.replace("table", "view")
        + "grant all on ciris_intermediate.int_runs to {scorer}",
        "View ciris_intermediate.int_runs is owned by {mallory}.",
        "drop view ciris_intermediate.int_runs;",
    ),
    "view that calls a function": Case(
        SCHEMAS + "create view ciris.dim_agents as select public.planted_value() as a;"
        "alter view ciris.dim_agents owner to {scorer}",
        "View ciris.dim_agents calls public.planted_value(), a function that is owned by {mallory}.",
        "drop view ciris.dim_agents;",
    ),
    "planted table of a mart": Case(
        SCHEMAS
        + "create table ciris.fct_capacity_scores (); alter table ciris.fct_capacity_scores owner to {mallory}",
        "Table ciris.fct_capacity_scores is owned by {mallory}.",
        "drop table ciris.fct_capacity_scores;",
    ),
    "planted table beside a mart": Case(
        SCHEMAS + "create table ciris.fct_capacity_scores__dbt_backup ();"
        "alter table ciris.fct_capacity_scores__dbt_backup owner to {mallory}",
        "Table ciris.fct_capacity_scores__dbt_backup is owned by {mallory}.",
        "drop table ciris.fct_capacity_scores__dbt_backup;",
    ),
    "planted staging table of a mart": Case(
        SCHEMAS + "create table ciris_intermediate.fct_capacity_scores__next ();"
        "comment on table ciris_intermediate.fct_capacity_scores__next is 'a condition that a run executes';"
        "alter table ciris_intermediate.fct_capacity_scores__next owner to {mallory}",
        "Table ciris_intermediate.fct_capacity_scores__next is owned by {mallory}.",
        "drop table ciris_intermediate.fct_capacity_scores__next;",
    ),
    "planted sequence": Case(
        SCHEMAS + "create sequence ciris.dim_agents; alter sequence ciris.dim_agents owner to {scorer}",
        "ciris.dim_agents is a sequence, but a run makes a table or view of that name.",
        "drop sequence ciris.dim_agents;",
    ),
    "planted type": Case(
        SCHEMAS + "create type ciris.dim_agents as enum ('a')",
        "ciris.dim_agents is a type, but a run makes a table or view of that name.",
        "drop type ciris.dim_agents;",
    ),
    "planted composite type": Case(
        SCHEMAS
        + "create type ciris.dim_agents as (a integer); alter type ciris.dim_agents owner to {scorer}",
        "ciris.dim_agents is a type, but a run makes a table or view of that name.",
        "drop type ciris.dim_agents;",
    ),
    "planted function": Case(
        SCHEMAS + "create function ciris_intermediate.int_runs() returns integer language sql as 'select 1'",
        "ciris_intermediate.int_runs() is a function, but a run makes a table or view of that name",
        "drop routine ciris_intermediate.int_runs();",
    ),
    "rule": Case(
        SCHEMAS + FULL_LOG + "create rule mine as on insert to ciris_intermediate.int_runs do nothing",
        "Table ciris_intermediate.int_runs has the rule mine.",
        "drop rule mine on ciris_intermediate.int_runs;",
    ),
    "row-level security": Case(
        SCHEMAS + FULL_LOG + "alter table ciris_intermediate.int_runs enable row level security",
        "Table ciris_intermediate.int_runs has row-level security",
        "alter table ciris_intermediate.int_runs disable row level security;",
    ),
    "child table": Case(
        SCHEMAS + FULL_LOG + "create table public.child () inherits (ciris_intermediate.int_runs)",
        "Table ciris_intermediate.int_runs has the child table public.child",
        "alter table public.child no inherit ciris_intermediate.int_runs;",
    ),
    "parent table": Case(
        SCHEMAS
        + FULL_LOG
        + "create table public.parent (command text); alter table ciris_intermediate.int_runs inherit public.parent",
        "Table ciris_intermediate.int_runs is a child of table public.parent.",
        "alter table ciris_intermediate.int_runs no inherit public.parent;",
    ),
    "foreign key": Case(
        SCHEMAS
        + FULL_LOG
        + "create table public.refers (run_id uuid references ciris_intermediate.int_runs on delete cascade);"
        "alter table public.refers owner to {mallory}",
        "Table public.refers, which is owned by {mallory}, refers to ciris_intermediate.int_runs by a foreign key.",
        "alter table public.refers drop constraint refers_run_id_fkey;",
    ),
    "default privileges": Case(
        SCHEMAS
        + "alter default privileges for role {scorer} in schema ciris grant trigger on tables to {mallory}",
        "By default role {mallory} gets the privilege trigger on new tables of {scorer} in schema ciris.",
        "alter default privileges for role {scorer} in schema ciris revoke trigger on tables from {mallory};",
    ),
    "default privileges everywhere": Case(
        SCHEMAS + "alter default privileges for role {scorer} grant all on tables to public",
        "By default role PUBLIC gets the privilege references on new tables of {scorer}.",
        "alter default privileges for role {scorer} revoke references on tables from PUBLIC;",
    ),
    "rights to read": Case(
        SCHEMAS + "grant usage on schema ciris to {mallory};"
        "alter default privileges for role {scorer} in schema ciris grant select on tables to {mallory}"
    ),
}
CLEAN = """
drop schema if exists ciris, ciris_staging, ciris_intermediate cascade;
drop table if exists public.ran_as, public.refers, public.child, public.parent cascade;
drop function if exists public.planted, public.planted_value, public.planted_text cascade;
drop domain if exists public.planted_domain cascade;
revoke pg_read_all_settings from {mallory}, {scorer};
revoke {scorer} from {mallory};
alter default privileges for role {scorer} revoke all on tables from public;
"""


@pytest.fixture(scope="module")
def roles(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("owners")) as roles:
        with roles.database.connect() as connection:
            create_source_tables(connection)
            connection.execute(
                f"grant usage on schema cirislens to {roles.scorer};"
                f"grant select on all tables in schema cirislens to {roles.scorer}"
            )
        yield roles


@pytest.fixture
def planted(roles: Roles, request: pytest.FixtureRequest) -> Iterator[Case]:
    """The database in the state of a case, which is reverted afterwards."""
    case: Case = request.param

    def filled(text: str) -> str:
        return text.replace("{scorer}", roles.scorer).replace("{mallory}", roles.mallory)

    with roles.database.connect() as connection:
        connection.execute(filled(CODE))
        connection.execute(filled(case.change))
        yield Case(case.change, filled(case.message), filled(case.remedy))
        connection.execute(filled(CLEAN))


def nothing_ran(roles: Roles) -> bool:
    with roles.database.connect() as connection:
        return connection.execute("select role from public.ran_as").fetchall() == []


@pytest.mark.parametrize("planted", CASES.values(), ids=CASES, indirect=True)
def test_refusal_names_the_object_and_the_remedy(roles: Roles, planted: Case) -> None:
    with connect(load_project(REPOSITORY, roles.target().profiles_dir)) as connection:
        faults = list(ownership_faults(connection, MARTS))
    if not planted.message:
        assert faults == []
    else:
        found = [fault for fault in faults if planted.message in fault.message]
        assert len(found) == 1, [fault.message for fault in faults]
        assert planted.remedy in str(found[0].hint)
    assert nothing_ran(roles)


LOG_WITH_TRIGGER = "planted log with a trigger"


@pytest.mark.parametrize("planted", [CASES[LOG_WITH_TRIGGER]], ids=[LOG_WITH_TRIGGER], indirect=True)
def test_a_run_is_refused_before_planted_code_runs(roles: Roles, planted: Case) -> None:
    database: Database = roles.target()
    result = invoke("run", *at(database), "--as-of", AS_OF)
    assert result.exit_code == 1
    assert planted.message in result.output
    assert planted.remedy in result.output
    checked = invoke("check", *at(database), "--json", "--vars", json.dumps({"ciris_as_of": AS_OF}))
    faults = json.loads(checked.stdout)["faults"]
    assert checked.exit_code == 1
    assert any(planted.message in fault["message"] and planted.remedy in fault["hint"] for fault in faults)
    for command in (["build"], ["seed"], ["test"]):
        plain = dbt(database, *command, variables={"ciris_as_of": AS_OF})
        assert not plain.succeeded, command
        assert planted.message in plain.said
    assert nothing_ran(roles)
