"""Tests of the roles in CIRIS_MART_READERS: only they may read the marts, and unknown roles stop a run."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from command_line import succeeded
from conftest import Database
from serving import SCORING, asking, reader
from test_bad_input import built, dbt, refusal, run

NEWEST = SCORED_UNTIL = "2026-06-15T00:00:00Z"
MARTS = ("fct_scoring_runs", "dim_scoring_windows", "fct_fleet_capacity")
NAMES = ("bi-team", "BI", "bi", "two words", 'a "quoted" one', "Ærlig")


@pytest.fixture(scope="module")
def roles(small_fleet: Database) -> Iterator[dict[str, str]]:
    """Roles by short name. Roles have a unique suffix, because all databases of a server share its roles."""
    suffix = uuid.uuid4().hex[:8]
    roles = {name: f"{name} {suffix}" if " " in name else f"{name}{suffix}" for name in NAMES}
    quoted = ['"' + role.replace('"', '""') + '"' for role in roles.values()]
    with small_fleet.connect() as connection:
        connection.execute("; ".join(f"create role {role}" for role in quoted))
        yield roles
        connection.execute("; ".join(f"drop owned by {role}; drop role {role}" for role in quoted))


def readers(database: Database) -> set[frozenset[str]]:
    """Return the sets of roles that may read a mart, without its owner. Marts with the same readers give one set."""
    with database.connect() as connection:
        return {
            frozenset(names)
            for (names,) in connection.execute(
                """
                select array(
                    select case grantee when 0 then 'PUBLIC' else pg_get_userbyid(grantee)::text end
                    from aclexplode(relacl) where grantee <> relowner and privilege_type = 'SELECT'
                )
                from pg_class where relname = any(%s) and relnamespace = %s::regnamespace
                """,
                [list(MARTS), SCHEMA],
            )
        }


def test_a_reader_may_read_only_the_marts(small_fleet, roles, monkeypatch) -> None:
    monkeypatch.setenv("CIRIS_MART_READERS", roles["bi"])
    succeeded(run(small_fleet, as_of=NEWEST))
    with small_fleet.connect() as connection:
        relations = connection.execute(
            """
            select
                nspname || '.' || relname, nspname, has_table_privilege(%(role)s, c.oid, 'select'),
                has_table_privilege(%(role)s, c.oid, 'insert, update, delete, truncate, references, trigger')
            from pg_class as c join pg_namespace as n on n.oid = relnamespace
            where relkind in ('r', 'v', 'm', 'f', 'p') and nspname ~ '^ciris'
            """,
            {"role": roles["bi"]},
        ).fetchall()
        schemas = "select bool_or(has_schema_privilege(%s, oid, 'create')) from pg_namespace where nspname !~ '^pg_'"
        assert connection.execute(schemas, [roles["bi"]]).fetchone() == (False,)
    assert {schema for _, schema, *_ in relations} == {
        SCHEMA, f"{SCHEMA}_intermediate", f"{SCHEMA}_staging", "cirislens",
    }  # fmt: skip
    assert [name for name, schema, reads, writes in relations if (reads, writes) != (schema == SCHEMA, False)] == []


@pytest.mark.slow
def test_listed_roles_gain_and_all_other_roles_lose_the_right_to_read(small_fleet, roles, monkeypatch) -> None:
    for names, expected in (
        (f" {' , '.join(roles.values())},,{roles['bi']},", roles.values()),
        (" , ,", roles.values()),  # entries without a name do not change rights
        (f"Public,{roles['BI']}", ["PUBLIC", roles["BI"]]),
    ):
        monkeypatch.setenv("CIRIS_MART_READERS", names)
        succeeded(dbt(small_fleet, "run", variables={"ciris_as_of": NEWEST}))
        assert readers(small_fleet) == {frozenset(expected)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("it's nobody,{bi-team}", 'create role "it\'s nobody";'),
        ("{upper}", "Its name is '{bi-team}': correct the variable."),
    ],
)
def test_unknown_role_stops_a_run_before_it_builds(small_fleet, roles, monkeypatch, names, expected) -> None:
    given = {**roles, "upper": roles["bi-team"].upper()}
    monkeypatch.setenv("CIRIS_MART_READERS", names.format(**given))
    before = built(small_fleet)
    said = refusal(dbt(small_fleet, "build", variables={"ciris_as_of": NEWEST}))
    assert "CIRIS_MART_READERS" in said and expected.format(**given) in said
    assert built(small_fleet) == before


@pytest.mark.slow
def test_api_answers_during_a_full_refresh(small_fleet, tmp_path) -> None:
    with reader(small_fleet, f"api_{uuid.uuid4().hex[:8]}", tmp_path) as read_by, asking(read_by) as client:
        answers: Counter[int] = Counter()
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                answers[client.get(f"{SCORING}/capacity/fleet").status_code] += 1

        asker = threading.Thread(target=ask)
        asker.start()
        try:
            succeeded(run(small_fleet, "--full-refresh", "--allow-rescoring", as_of=NEWEST))
        finally:
            is_over.set()
            asker.join()
    assert answers.keys() == {200}
