"""Tests of row-level security on a source: a run never scores only the rows that a policy permits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab.embedded import Server
from command_line import at, invoke
from conftest import REPOSITORY
from other_roles import Roles, two_roles

TABLES = [f"cirislens.{name}" for name in SOURCE_TABLES]
SECURED = "create policy only_some on {table} using (false); alter table {table} enable row level security;"
FORCED = "alter table {table} force row level security;"
OWNED = "alter table {table} owner to {scorer};"
MOVED = "alter table {table} rename to {kept};"
VIEW = MOVED + SECURED.replace("{table}", "cirislens.{kept}") + "create view {table} {with} as {all};"
MAY_READ = "grant usage on schema cirislens to {mallory}; grant select on cirislens.{kept} to {mallory};"
INHERITED = (
    MOVED
    + "create table {table} (like cirislens.{kept} including all); alter table cirislens.{kept} inherit {table};"
)


@dataclass(frozen=True)
class Case:
    """A change of a source and the texts of the refusal. Without texts, all rows must be read."""

    change: str
    expected: tuple[str, ...] = ()
    is_seen_by_the_server: bool = True
    """Whether the server refuses the query too."""


CASES = {
    "policy": Case(
        SECURED,
        ("the policy only_some of table {table}", "role {scorer}", "alter role {scorer} bypassrls"),
    ),
    "no policy": Case(
        "alter table {table} enable row level security;", ("without any policy, security of table {table}",)
    ),
    "owner": Case(SECURED + OWNED),
    "forced owner": Case(
        SECURED + FORCED + OWNED,
        ("the policy only_some", "alter table {table} no force row level security"),
    ),
    "not enabled": Case("create policy only_some on {table} using (false);"),
    "view of the owner": Case(VIEW.replace("{with}", "")),
    "view of another role": Case(
        VIEW.replace("{with}", "with (security_barrier)")
        + "alter view {table} owner to {mallory};"
        + MAY_READ,
        ("the policy only_some of table cirislens.{kept} decides which rows role {mallory} sees", "{table}"),
    ),
    "view of a view of the invoker": Case(
        VIEW.replace("{with}", "with (security_invoker)")
        + "alter view {table} rename to {kept}_between;"
        + "create view {table} as select * from cirislens.{kept}_between;",
        ("policy only_some of table cirislens.{kept}", "role {scorer}"),
    ),
    "materialized view": Case(
        VIEW.replace("create view", "create materialized view").replace("{with}", "")
        + "alter materialized view {table} owner to {mallory};"
        + MAY_READ,
        ("policy only_some of table cirislens.{kept}", "role {mallory}"),
        # The rows were filtered when the view was filled.
        is_seen_by_the_server=False,
    ),
    "child": Case(INHERITED + SECURED.replace("{table}", "cirislens.{kept}")),
    "parent": Case(INHERITED + SECURED, ("the policy only_some of table {table}",)),
}


@pytest.fixture(scope="module")
def roles(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("rows")) as roles:
        yield roles


@pytest.fixture
def sources(roles: Roles) -> Iterator[psycopg.Connection]:
    """A superuser's session in the database with empty sources, which are dropped afterwards."""
    with roles.database.connect() as connection:
        create_source_tables(connection)
        yield connection
        connection.execute("drop schema cirislens cascade")


def may_read(connection: psycopg.Connection, roles: Roles) -> None:
    connection.execute(
        f"grant usage on schema cirislens to {roles.scorer};"
        f"grant select on all tables in schema cirislens to {roles.scorer}"
    )


def faults(roles: Roles) -> list[str]:
    """Return the faults that `check` finds."""
    result = invoke("check", *at(roles.target()), "--json")
    found = [fault["message"] for fault in json.loads(result.stdout)["faults"]]
    assert result.exit_code == (1 if found else 0)
    return found


@pytest.mark.parametrize("first", range(0, len(CASES), len(TABLES)))
def test_check_refuses_sources_whose_rows_the_server_would_hide(
    roles: Roles, sources: psycopg.Connection, first: int
) -> None:
    """Each test changes every source table in a different way."""
    cases = dict(zip(TABLES, list(CASES.values())[first:], strict=False))

    def filled(text: str, table: str) -> str:
        kept = f"kept_{table.partition('.')[2]}"
        names = {"table": table, "kept": kept, "all": f"select * from cirislens.{kept}"}
        for name, value in (names | {"scorer": roles.scorer, "mallory": roles.mallory}).items():
            text = text.replace("{" + name + "}", value)
        return text

    for table, case in cases.items():
        sources.execute(filled(case.change, table))
    may_read(sources, roles)
    all_faults = faults(roles)
    found = {table: [one for one in all_faults if table in one] for table in cases}
    with roles.connect_as(roles.scorer) as connection:
        connection.execute("set row_security to off")
        for table, case in cases.items():
            assert len(found[table]) == bool(case.expected), found[table]
            for part in case.expected:
                assert filled(part, table) in found[table][0]
            if case.expected and case.is_seen_by_the_server:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                    connection.execute(f"select count(*) from {table}")
            else:
                connection.execute(f"select count(*) from {table}")


def test_exempt_role_is_not_refused(roles: Roles, sources: psycopg.Connection) -> None:
    for table in TABLES:
        sources.execute(SECURED.replace("{table}", table))
    may_read(sources, roles)
    sources.execute(f"alter role {roles.scorer} bypassrls")
    assert faults(roles) == []
    sources.execute(f"alter role {roles.scorer} nobypassrls")


def test_server_refuses_filtered_rows_that_check_cannot_detect(
    roles: Roles, sources: psycopg.Connection
) -> None:
    """A view calls a function that reads a table. The catalog does not record that the view depends on the table."""
    sources.execute(
        """
        create table cirislens.more (agent text);
        create function cirislens.count_more() returns bigint language sql as 'select count(*) from cirislens.more';
        create view cirislens.hiding as select cirislens.count_more() as n;
        alter table cirislens.more enable row level security;
        """
    )
    may_read(sources, roles)
    project = load_project(REPOSITORY, roles.target().profiles_dir)
    with pytest.raises(DatabaseError, match="row-level security") as refused, connect(project) as session:
        session.execute("select * from cirislens.hiding")
    assert "bypassrls" in str(refused.value.hint)
