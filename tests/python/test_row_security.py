"""Tests of row-level security on a source: a run never scores only the rows that a policy permits."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ciris_scoring.database.connection import connect
from ciris_scoring.database.project import load_project
from ciris_scoring.database.source_schema import create_source_tables
from ciris_scoring.errors import DatabaseError
from ciris_scoring.lab.embedded import Server
from command_line import at, command, invoke, refused
from conftest import REPOSITORY
from other_roles import Roles, two_roles


@pytest.fixture
def roles(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("rows")) as roles:
        yield roles


def test_sources_whose_rows_the_server_would_hide_are_refused(roles: Roles) -> None:
    with roles.database.connect() as connection:
        create_source_tables(connection)
        roles.grant_sources(connection)
        connection.execute("alter table cirislens.covenant_traces enable row level security")
    [fault] = json.loads(command(roles.database, "check", "--json").stdout)["faults"]
    assert 'row-level security policy for table "covenant_traces"' in fault["message"]
    error, hint = refused(invoke("run", *at(roles.database), "--as-of", "2026-06-15"))
    assert 'row-level security policy for table "covenant_traces"' in error and "bypassrls" in hint
    assert "The marts stay as they were." in hint


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
    with (
        pytest.raises(DatabaseError, match="row-level security") as refused,
        connect(project) as session,
        session.transaction(),
    ):
        session.execute("select * from public.hiding")
    assert "bypassrls" in str(refused.value.hint)
