"""Tests that sessions and views use no function or operator that another role planted on the search path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA, Server
from command_line import at, invoke
from conftest import REPOSITORY
from other_roles import Roles, two_roles
from pipeline import score
from serving import SCORING, asking, opened
from signed_batches import MIDDLE, Agent, batch
from test_bad_input import dbt
from test_load import write, write_keys

FIRST, NEWEST = "2026-06-14T00:00:00Z", "2026-06-15T00:00:00Z"
# Functions that match better than those of pg_catalog and are therefore preferred although pg_catalog is first.
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
# Copies of all functions and operators of PostgreSQL that can be copied. Each raises an error when it is called.
COPIES = """
do $plant$
declare
    one record;
    body text := $body$ {body} $body$;
begin
    for one in
        select
            p.proname,
            pg_get_function_identity_arguments(p.oid) as arguments,
            pg_get_function_result(p.oid) as result
        from pg_proc as p
        where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.proargmodes is null
    loop
        begin
            execute format(
                'create function {schema}.%I(%s) returns %s language plpgsql as %L',
                one.proname, one.arguments, one.result, body
            );
        exception
            when others then null;
        end;
    end loop;
    for one in
        select o.oprname, o.oprleft::regtype as arg_left, o.oprright::regtype as arg_right, p.proname
        from pg_operator as o
        inner join pg_proc as p on o.oprcode = p.oid
        where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprleft <> 0
    loop
        begin
            execute format(
                'create operator {schema}.%s (function = {schema}.%I, leftarg = %s, rightarg = %s)',
                one.oprname, one.proname, one.arg_left, one.arg_right
            );
        exception
            when others then null;
        end;
    end loop;
end $plant$;
"""
STOP = "begin raise exception 'planted code runs as %', current_user; end"
# Objects outside pg_catalog that a view uses, except relations.
USED_BY_VIEWS = """
select c.oid::regclass::text, pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
from pg_class as c
inner join pg_rewrite as r on c.oid = r.ev_class
inner join pg_depend as d on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
where c.relnamespace = any(%s::regnamespace[]) and d.refclassid <> 'pg_class'::regclass
"""


def plant(connection: psycopg.Connection, schema: str) -> None:
    for statements in (BETTER, COPIES):
        connection.execute(statements.replace("{schema}", schema).replace("{body}", STOP))


@pytest.fixture(scope="module")
def planted(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    """A database in which every schema of the search path contains planted names and precedes pg_catalog."""
    with two_roles(embedded_postgres, tmp_path_factory.mktemp("planted")) as roles:
        with roles.database.connect() as connection:
            connection.execute(f"create schema {SCHEMA} authorization {roles.scorer}")
            for schema in ("public", SCHEMA):
                plant(connection, schema)
            [[n]] = connection.execute(
                "select count(*) from pg_proc where pronamespace = 'public'::regnamespace"
            ).fetchall()
            assert n > 2000
            connection.execute(
                f"alter role {roles.scorer} in database {roles.database.name}"
                f" set search_path = public, {SCHEMA}, pg_catalog"
            )
        with (
            roles.connect_as(roles.scorer) as connection,
            pytest.raises(psycopg.errors.RaiseException, match="planted code runs as scorer_"),
        ):
            connection.execute("select md5('x')")
        yield roles


def test_no_command_runs_planted_code(planted: Roles, tmp_path: Path) -> None:
    """All commands of plain dbt and ciris-scoring that read or write the database."""
    place = at(planted.target())
    agent = Agent(MIDDLE, 7)
    write(tmp_path, "a.json", batch([agent.trace() for _ in range(5)]))
    keys = write_keys(tmp_path, agent)
    loaded = ["--vars", json.dumps({"ciris_source_schema": "loaded"})]
    report = tmp_path / "report.html"
    for arguments in (
        ["simulate", *place, "--agents", 3, "--days", 9, "--end", NEWEST],
        ["run", *place, "--as-of", FIRST, "--report", report],
        ["run", *place, "--as-of", NEWEST],
        ["run", *place, "--from", FIRST, "--to", NEWEST, "--allow-rescoring"],
        ["check", *place],
        ["report", *place, "--output", report],
        ["load", tmp_path, "--keys", keys, *place, *loaded],
        ["audit", tmp_path, "--keys", keys, *place, *loaded],
    ):
        result = invoke(*arguments)
        assert result.exit_code == 0, f"{arguments}: {result.output[-2000:]}"
    with planted.database.connect() as connection:
        [(agent_hash,)] = connection.execute("select agent_id_hash from ciris.dim_agents limit 1").fetchall()
    assert invoke("explain", agent_hash, *place).exit_code == 0
    with opened(load_project(REPOSITORY, planted.database.profiles_dir)) as served:
        client = asking(served)
        assert client.get(f"{SCORING}/capacity/fleet").status_code == 200
        assert client.get("/").status_code == 200


def test_plain_dbt_runs_no_planted_code(planted: Roles) -> None:
    """The commands are build, test, source freshness and docs generate."""
    database = planted.target("plain")
    if not invoke("check", *at(database)).stdout.startswith("Fit"):
        assert invoke("simulate", *at(database), "--agents", 3, "--days", 9, "--end", NEWEST).exit_code == 0
    for as_of in (FIRST, NEWEST):
        for command in (["build"], ["test"], ["source", "freshness"], ["docs", "generate"]):
            outcome = dbt(database, *command, variables={"ciris_as_of": as_of})
            assert "planted" not in outcome.said, outcome.said
            assert outcome.succeeded or command == ["source", "freshness"], outcome.said


def test_views_hold_no_planted_name_and_run_none_for_a_superuser(planted: Roles) -> None:
    schemas = [SCHEMA, f"{SCHEMA}_staging", f"{SCHEMA}_intermediate"]
    with planted.database.connect() as connection:
        [[has_scores]] = connection.execute(
            "select to_regclass('ciris.fct_capacity_scores') is not null"
        ).fetchall()
        if not has_scores:
            assert invoke("simulate", *at(planted.target()), "--agents", 3, "--days", 9).exit_code == 0
            score(planted.target().profiles_dir, NEWEST)
        assert connection.execute(USED_BY_VIEWS, [schemas]).fetchall() == []
        views = connection.execute(
            "select relnamespace::regnamespace::text, relname from pg_class"
            " where relkind = 'v' and relnamespace = any(%s::regnamespace[])",
            [schemas],
        ).fetchall()
        assert len(views) > 10
        connection.execute("set search_path to public, ciris, pg_catalog")
        for view in views:
            connection.execute(sql.SQL("select * from {}").format(sql.Identifier(*view)))
