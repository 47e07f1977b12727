"""Tests of the roles in CIRIS_MART_READERS: they are checked before anything is built, quoted, and get exclusive
access."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from test_bad_input import built, dbt, run

NEWEST = "2026-06-15T00:00:00Z"
MARTS = ("fct_scoring_runs", "dim_scoring_windows", "fct_fleet_capacity")
NAMES = ("bi-team", "BI", "bi", "two words", 'a "quoted" one', "Ærlig")


@pytest.fixture(scope="module")
def reader(small_fleet: Database) -> Iterator[str]:
    """A role that a run may grant the marts to."""
    name = f"reader_{uuid.uuid4().hex[:8]}"
    with small_fleet.connect() as connection:
        connection.execute(f"create role {name}; grant usage on schema public to {name}")
        yield name
        connection.execute(f"drop owned by {name}; drop role {name}")


@pytest.fixture(scope="module")
def database(small_fleet: Database, reader: str) -> Database:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRIS_MART_READERS", reader)
        result = run(small_fleet, as_of=NEWEST)
    assert result.exit_code == 0, result.output
    return small_fleet


@pytest.fixture(scope="module")
def roles(database: Database) -> Iterator[dict[str, str]]:
    """Roles with unusual names. They have a unique suffix, because roles are shared by all databases of a server."""
    suffix = uuid.uuid4().hex[:8]
    roles = {name: f"{name} {suffix}" if " " in name else f"{name}{suffix}" for name in NAMES}
    quoted = ['"' + role.replace('"', '""') + '"' for role in roles.values()]
    with database.connect() as connection:
        connection.execute("; ".join(f"create role {role}" for role in quoted))
        yield roles
        connection.execute("; ".join(f"drop owned by {role}; drop role {role}" for role in quoted))


def readers(database: Database) -> set[tuple[str, ...]]:
    """Return the roles other than the owner that may read each mart."""
    with database.connect() as connection:
        return {
            tuple(row[0])
            for row in connection.execute(
                """
                select array(
                    select case grantee when 0 then 'PUBLIC' else grantee::regrole::text end
                    from aclexplode(relacl) where grantee <> relowner and privilege_type = 'SELECT' order by 1
                )
                from pg_class where relname = any(%s) and relnamespace = %s::regnamespace
                """,
                [list(MARTS), SCHEMA],
            )
        }


def quoted(database: Database, *roles: str) -> set[tuple[str, ...]]:
    with database.connect() as connection:
        return {
            tuple(
                sorted(connection.execute("select quote_ident(%s)", [role]).fetchone()[0] for role in roles)
            )
        }


def build(database: Database) -> None:
    outcome = dbt(database, "run", "--select", *MARTS, variables={"ciris_as_of": NEWEST})
    assert outcome.succeeded, outcome.said


def test_role_may_only_read_the_marts(database, reader) -> None:
    with database.connect() as connection:
        relations = connection.execute(
            """
            select
                nspname || '.' || relname, nspname, has_table_privilege(%(role)s, c.oid, 'select'),
                has_table_privilege(%(role)s, c.oid, 'insert, update, delete, truncate, references, trigger')
            from pg_class as c join pg_namespace as n on n.oid = relnamespace
            where relkind in ('r', 'v', 'm', 'f', 'p') and nspname ~ '^ciris'
            """,
            {"role": reader},
        ).fetchall()
        schemas = "select bool_or(has_schema_privilege(%s, oid, 'create')) from pg_namespace where nspname !~ '^pg_'"
        assert connection.execute(schemas, [reader]).fetchone() == (False,)
    assert {schema for _, schema, *_ in relations} == {
        SCHEMA, f"{SCHEMA}_intermediate", f"{SCHEMA}_staging", "cirislens",
    }  # fmt: skip
    assert [
        name for name, schema, reads, writes in relations if (reads, writes) != (schema == SCHEMA, False)
    ] == []


def test_named_roles_are_granted_and_all_others_revoked(database, roles, monkeypatch) -> None:
    monkeypatch.setenv("CIRIS_MART_READERS", f" {' , '.join(roles.values())},,{roles['bi']},")
    build(database)
    assert {tuple(sorted(found)) for found in readers(database)} == quoted(database, *roles.values())
    monkeypatch.setenv("CIRIS_MART_READERS", roles["bi"])
    build(database)
    assert readers(database) == quoted(database, roles["bi"])
    monkeypatch.setenv("CIRIS_MART_READERS", " , ,")  # entries without a name change no right
    build(database)
    assert readers(database) == quoted(database, roles["bi"])
    monkeypatch.setenv("CIRIS_MART_READERS", f"Public,{roles['BI']}")
    build(database)
    assert {frozenset(found) for found in readers(database)} == {
        frozenset({"PUBLIC", *quoted(database, roles["BI"]).pop()})
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("nobody,{bi-team}", 'create role "nobody";'),
        ("{upper}", "Its name is '{bi-team}': correct the variable."),
        ("CURRENT_USER", "names the role 'CURRENT_USER', which does not exist"),
        ("it's", "names the role "),
    ],
)
def test_unknown_role_stops_a_run_before_it_builds(database, roles, monkeypatch, names, expected) -> None:
    given = {**roles, "upper": roles["bi-team"].upper()}
    monkeypatch.setenv("CIRIS_MART_READERS", names.format(**given))
    before = built(database)
    outcome = dbt(database, "build", variables={"ciris_as_of": NEWEST})
    assert not outcome.succeeded
    assert "CIRIS_MART_READERS" in outcome.said and expected.format(**given) in outcome.said
    assert built(database) == before


def test_unknown_role_stops_the_command(database, monkeypatch) -> None:
    monkeypatch.setenv("CIRIS_MART_READERS", "no-such-role")
    before, result = built(database), run(database, as_of=NEWEST)
    assert result.exit_code == 1
    assert "names the role 'no-such-role', which does not exist" in result.output
    assert built(database) == before
