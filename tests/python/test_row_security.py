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
from ciris_scoring.basics.source_schema import SOURCE_TABLES
from ciris_scoring.lab.embedded import Server
from command_line import at, invoke
from conftest import REPOSITORY
from nasty_fleet import START, nasty_fleet
from other_roles import Roles, two_roles
from pipeline import load_rows
from test_bad_input import dbt

TRACES = "cirislens.covenant_traces"
POLICY = "create policy only_some on {table} using (agent_id_hash < 'b');"
ON = "alter table {table} enable row level security;"
FORCED = "alter table {table} force row level security;"
OWNED = "alter table {table} owner to {scorer};"
MOVED = "alter table cirislens.covenant_traces rename to kept;"
VIEW = MOVED + "create view cirislens.covenant_traces {options} as select * from cirislens.kept;"
OF_OWNER = "alter view cirislens.covenant_traces owner to {mallory};"
MAY_READ = "grant usage on schema cirislens to {mallory}; grant select on cirislens.kept to {mallory};"
HIDDEN = (ON + POLICY).replace("{table}", "cirislens.kept")
INHERITED = (
    MOVED
    + "create table cirislens.covenant_traces (like cirislens.kept including all);"
    + "alter table cirislens.kept inherit cirislens.covenant_traces;"
)


@dataclass(frozen=True)
class Case:
    """A change of the sources and the texts of the refusal. Without texts, all rows must be read."""

    change: str
    expected: tuple[str, ...] = ()


CASES = {
    "policy": Case(
        (ON + POLICY).replace("{table}", TRACES),
        (
            "the policy only_some of table cirislens.covenant_traces",
            "role {scorer}",
            "alter role {scorer} bypassrls",
        ),
    ),
    "no policy": Case(ON.replace("{table}", TRACES), ("without any policy, security of table", TRACES)),
    "deferrals": Case(ON.replace("{table}", "cirislens.wbd_deferrals"), ("cirislens.wbd_deferrals",)),
    "owner": Case((ON + POLICY + OWNED).replace("{table}", TRACES)),
    "forced owner": Case(
        (ON + FORCED + POLICY + OWNED).replace("{table}", TRACES),
        ("the policy only_some", f"alter table {TRACES} no force row level security"),
    ),
    "exempt": Case((ON + POLICY).replace("{table}", TRACES) + "alter role {scorer} bypassrls;"),
    "not enabled": Case(POLICY.replace("{table}", TRACES)),
    "view of the owner": Case(VIEW.replace("{options}", "") + HIDDEN),
    "view of another role": Case(
        VIEW.replace("{options}", "with (security_barrier)") + OF_OWNER + MAY_READ + HIDDEN,
        ("the policy only_some of table cirislens.kept decides which rows role {mallory} sees", TRACES),
    ),
    "view of the invoker": Case(
        VIEW.replace("{options}", "with (security_invoker = on)") + HIDDEN,
        ("policy only_some of table cirislens.kept", "role {scorer}"),
    ),
    "view of a view": Case(
        VIEW.replace("{options}", "with (security_invoker)")
        + HIDDEN
        + "alter view cirislens.covenant_traces rename to between;"
        + "create view cirislens.covenant_traces as select * from cirislens.between",
        ("policy only_some of table cirislens.kept", "role {scorer}"),
    ),
    "materialized view": Case(
        VIEW.replace("create view", "create materialized view").replace("{options}", "")
        + "alter materialized view cirislens.covenant_traces owner to {mallory};"
        + MAY_READ
        + HIDDEN,
        ("policy only_some of table cirislens.kept", "role {mallory}"),
    ),
    "child": Case(INHERITED + HIDDEN),
    "parent": Case(
        INHERITED + (ON + POLICY).replace("{table}", TRACES),
        ("the policy only_some of table cirislens.covenant_traces",),
    ),
}


@pytest.fixture(scope="module")
def roles(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("rows")) as roles:
        with roles.database.connect() as connection:
            load_rows(connection, nasty_fleet(4, days=3))
        yield roles


@pytest.fixture
def changed(roles: Roles, request: pytest.FixtureRequest) -> Iterator[Case]:
    """The changed sources, which are restored afterwards."""
    case: Case = request.param
    names = {"scorer": roles.scorer, "mallory": roles.mallory}

    def filled(text: str) -> str:
        for name, role in names.items():
            text = text.replace("{" + name + "}", role)
        return text

    grants = f"""
        grant usage on schema cirislens to {roles.scorer};
        grant select on all tables in schema cirislens to {roles.scorer};
    """
    with roles.database.connect() as connection:
        connection.execute("drop schema if exists as_it_was cascade; create schema as_it_was")
        for table in SOURCE_TABLES:
            connection.execute(f"create table as_it_was.{table} (like cirislens.{table} including all)")
            connection.execute(f"insert into as_it_was.{table} select * from cirislens.{table}")
        connection.execute(filled(case.change))
        connection.execute(grants)
        yield Case(case.change, tuple(map(filled, case.expected)))
        connection.execute("drop schema cirislens cascade; alter schema as_it_was rename to cirislens")
        connection.execute(f"alter role {roles.scorer} nobypassrls")


def rows_read(roles: Roles) -> dict[str, int | None]:
    """Return the number of rows that the role reads from each source with row_security off; None if the server
    refuses."""
    found: dict[str, int | None] = {}
    with roles.connect_as(roles.scorer) as connection:
        connection.execute("set row_security to off")
        for table in SOURCE_TABLES:
            try:
                [[found[table]]] = connection.execute(f"select count(*) from cirislens.{table}").fetchall()
            except psycopg.errors.InsufficientPrivilege as error:
                assert "row-level security" in str(error)
                found[table] = None
    return found


@pytest.mark.parametrize("changed", CASES.values(), ids=CASES, indirect=True)
def test_check_refuses_sources_whose_rows_the_server_would_hide(
    roles: Roles, changed: Case, request: pytest.FixtureRequest
) -> None:
    with roles.database.connect() as connection:
        everything = {
            table: connection.execute(f"select count(*) from as_it_was.{table}").fetchall()[0][0]
            for table in SOURCE_TABLES
        }
    as_of = ["--vars", json.dumps({"ciris_as_of": START.isoformat()[:8] + "08"})]
    result = invoke("check", *at(roles.target()), "--json", *as_of)
    faults = json.loads(result.stdout)["faults"]
    if not changed.expected:
        assert (result.exit_code, faults) == (0, [])
        assert rows_read(roles) == everything
        return
    assert result.exit_code == 1
    assert len(faults) == 1
    for part in changed.expected:
        assert part in faults[0]["message"]
    # A materialized view was filtered when it was filled, so the server does not refuse it.
    if request.node.callspec.id != "materialized view":
        assert None in rows_read(roles).values()


@pytest.mark.parametrize("changed", [CASES["policy"]], ids=["policy"], indirect=True)
def test_a_run_is_refused(roles: Roles, changed: Case) -> None:
    as_of = START.isoformat()[:8] + "08"
    result = invoke("run", *at(roles.target()), "--as-of", as_of)
    assert result.exit_code == 1
    plain = dbt(roles.target("plain"), "build", variables={"ciris_as_of": as_of})
    assert not plain.succeeded
    for said in (result.output, plain.said):
        assert "the policy only_some of table cirislens.covenant_traces" in said


def test_server_refuses_filtered_rows_that_check_cannot_detect(roles: Roles) -> None:
    """A view calls a function that reads a table. The catalog does not record that the view depends on the table."""
    with roles.database.connect() as connection:
        connection.execute(
            f"""
            create table cirislens.more (agent text);
            insert into cirislens.more values ('a'), ('b');
            create function cirislens.count_more() returns bigint language sql as 'select count(*) from cirislens.more';
            create view cirislens.hiding as select cirislens.count_more() as n;
            alter table cirislens.more enable row level security;
            grant usage on schema cirislens to {roles.scorer};
            grant select on all tables in schema cirislens to {roles.scorer};
            """
        )
        project = load_project(REPOSITORY, roles.target().profiles_dir)
        with pytest.raises(DatabaseError, match="row-level security") as refused, connect(project) as session:
            session.execute("select * from cirislens.hiding")
        assert "bypassrls" in str(refused.value.hint)
        connection.execute(
            "drop view cirislens.hiding; drop function cirislens.count_more; drop table cirislens.more"
        )
