"""Tests of row-level security on a source: a run never scores only the rows that a policy permits."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab.embedded import Server
from command_line import command
from conftest import REPOSITORY
from other_roles import Roles, two_roles

ENABLED = "alter table {table} enable row level security;"
SECURED = "create policy only_some on {table} using (false);" + ENABLED
OWNED = "alter table {table} owner to {scorer};"
MOVED = "alter table {table} rename to {kept};"
VIEW = (
    MOVED
    + SECURED.replace("{table}", "cirislens.{kept}")
    + "create view {table} {with} as select * from cirislens.{kept};"
)
MAY_READ = "grant usage on schema cirislens to {mallory}; grant select on cirislens.{kept} to {mallory};"
INHERITED = (
    MOVED
    + "create table {table} (like cirislens.{kept} including all); alter table cirislens.{kept} inherit {table};"
)
CASES = {
    "policy": (
        SECURED,
        ("the policy only_some of table {table}", "role {scorer}", "alter role {scorer} bypassrls"),
    ),
    "no policy": (ENABLED, ("without any policy, security of table {table}",)),
    "owner": (SECURED + OWNED, ()),
    "forced owner": (
        SECURED + "alter table {table} force row level security;" + OWNED,
        ("the policy only_some", "alter table {table} no force row level security"),
    ),
    "view of the owner of the table": (VIEW.replace("{with}", ""), ()),
    "view of another role": (
        VIEW.replace("{with}", "with (security_barrier)")
        + "alter view {table} owner to {mallory};"
        + MAY_READ,
        ("the policy only_some of table cirislens.{kept} decides which rows role {mallory} sees", "{table}"),
    ),
    "ordinary view of a security_invoker view": (
        VIEW.replace("{with}", "with (security_invoker)")
        + "alter view {table} rename to {kept}_between;"
        + "create view {table} as select * from cirislens.{kept}_between;",
        ("policy only_some of table cirislens.{kept}", "role {scorer}"),
    ),
    "materialized view": (
        VIEW.replace("create view", "create materialized view").replace("{with}", "")
        + "alter materialized view {table} owner to {mallory};"
        + MAY_READ,
        ("policy only_some of table cirislens.{kept}", "role {mallory}"),
    ),
    "child": (INHERITED + SECURED.replace("{table}", "cirislens.{kept}"), ()),
    "parent": (INHERITED + SECURED, ("the policy only_some of table {table}",)),
}
"""Statements that change a source, and texts of the refusal. Without texts, the source must be accepted."""


@pytest.fixture
def roles(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("rows")) as roles:
        yield roles


def faults(roles: Roles) -> list[str]:
    """Return the faults that `check` finds."""
    result = command(roles.database, "check", "--json")
    found = [fault["message"] for fault in json.loads(result.stdout)["faults"]]
    assert result.exit_code == (1 if found else 0)
    return found


def test_check_refuses_sources_whose_rows_the_server_would_hide(roles: Roles) -> None:
    """Each case changes a different source table. In the end, the scoring role is exempt from policies."""
    tables = [f"cirislens.{name}" for name in SOURCE_TABLES]

    def filled(text: str, table: str) -> str:
        return roles.filled(text, table=table, kept=f"kept_{table.partition('.')[2]}")

    with roles.database.connect() as connection:
        for first in range(0, len(CASES), len(tables)):
            cases = dict(zip(tables, list(CASES.values())[first:], strict=False))
            connection.execute("drop schema if exists cirislens cascade")
            create_source_tables(connection)
            for table, (change, _) in cases.items():
                connection.execute(filled(change, table))
            roles.grant_sources(connection)
            all_faults = faults(roles)
            for table, (_, expected) in cases.items():
                found = [one for one in all_faults if table in one]
                assert len(found) == bool(expected), found
                assert [text for text in expected if filled(text, table) not in found[0]] == []
        connection.execute(f"alter role {roles.scorer} bypassrls")
    assert [one for one in faults(roles) if f"role {roles.mallory}" not in one] == []


def test_server_refuses_filtered_rows_that_check_cannot_detect(roles: Roles) -> None:
    """A view calls a function that reads a table. The catalog does not record that the view depends on the table."""
    with roles.database.connect() as connection:
        connection.execute(
            f"""
            create table public.more (agent text);
            create function public.count_more() returns bigint language sql as 'select count(*) from public.more';
            create view public.hiding as select public.count_more() as n;
            alter table public.more enable row level security;
            grant select on public.more, public.hiding to {roles.scorer}
            """
        )
    project = load_project(REPOSITORY, roles.database.profiles_dir)
    with pytest.raises(DatabaseError, match="row-level security") as refused, connect(project) as session:
        session.execute("select * from public.hiding")
    assert "bypassrls" in str(refused.value.hint)
