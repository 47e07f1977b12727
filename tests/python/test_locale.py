"""Tests that the locale of a database changes nothing, neither case conversion nor sorting."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.lab.embedded import SCHEMA, Server
from ciris_scoring.serve.fleet_table import fleet_tables
from command_line import at, invoke, printed
from conftest import REPOSITORY, Database, fresh_database
from nasty_fleet import START, nasty_fleet
from pipeline import LOG_OF_RUNS, MARTS, RUN_TIMES, differences_from_reference, load_rows, score
from signed_batches import MIDDLE, Agent, batch
from test_load import command, write, write_keys

# Turkish has two letters i. Punctuation is ignored, as in the locales of Linux, and digits are compared as numbers.
LOCALE = "tr-TR-u-ka-shifted-kn"
OF_PLACES = ("int_scoring_run", "int_source_periods")
"""Relations with the storage time and position of source rows, like the columns row_version."""

AS_OFS = (START + timedelta(days=10), START + timedelta(days=13))


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


def fleet() -> dict[str, list[dict[str, Any]]]:
    """Return a random fleet with actions, statuses, names and hashes that other locales treat differently."""
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


@pytest.fixture(scope="module")
def fleets(
    system_postgres: Server, turkish: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Database]]:
    """The same fleet, scored twice in a database with locale C and twice in a Turkish one."""
    with ExitStack() as stack:
        databases = []
        for template in ("template1", turkish):
            folder = tmp_path_factory.mktemp(template)
            database = stack.enter_context(fresh_database(system_postgres, folder, template))
            with database.connect() as connection:
                load_rows(connection, fleet())
            for as_of in AS_OFS:
                score(database.profiles_dir, as_of)
            databases.append(database)
        yield databases


def published(database: Database) -> dict[str, list[str]]:
    """Return the rows of all relations in bytewise order, without times and positions of runs and source rows."""
    with database.connect() as connection:
        relations = connection.execute(
            """
            select c.oid::regclass::text, array_agg(a.attname::text order by a.attnum)
            from pg_class as c
            inner join pg_attribute as a on c.oid = a.attrelid and a.attnum > 0 and not a.attisdropped
            where
                c.relnamespace::regnamespace::text like %s
                and c.relkind in ('r', 'v')
                and not c.relname = any(%s)
                and not a.attname = any(%s)
            group by c.oid
            """,
            [f"{SCHEMA}%", [*LOG_OF_RUNS, *OF_PLACES], [*RUN_TIMES, "row_version"]],
        ).fetchall()
        return {
            relation: sorted(
                text
                for (text,) in connection.execute(
                    sql.SQL("select row({})::text from {}").format(
                        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(relation)
                    )
                )
            )
            for relation, columns in relations
        }


def test_turkish_locale_changes_case_and_order(fleets: list[Database]) -> None:
    query = """
    select
        upper('action_i'),
        array(select name from unnest(array['B', 'a', 'a10', 'a9', 'a_z', 'ab']) as of (name) order by name)
    """
    found = []
    for database in fleets:
        with database.connect() as connection:
            found += connection.execute(query).fetchall()
    assert found == [
        ("ACTION_I", ["B", "a", "a10", "a9", "a_z", "ab"]),
        ("ACTİON_İ", ["a", "a9", "a10", "ab", "a_z", "B"]),
    ]


def test_every_row_is_the_same_in_any_locale(fleets: list[Database]) -> None:
    in_c, in_turkish = map(published, fleets)
    assert len(in_c) > 45 and in_c.keys() == in_turkish.keys()
    assert [name for name in in_c if in_c[name] != in_turkish[name]] == []


def test_scores_equal_the_reference_in_any_locale(fleets: list[Database]) -> None:
    for database in fleets:
        with database.connect() as connection:
            assert differences_from_reference(connection, SCHEMA, AS_OFS[-1]) == []
            actions = connection.execute(
                f"select distinct selected_action from {SCHEMA}_intermediate.int_trace_checks"
            ).fetchall()
            assert ("MEMORIZE",) in actions


def test_output_is_the_same_in_any_locale(fleets: list[Database]) -> None:
    said = []
    for database in fleets:
        with database.connect() as connection:
            [agents] = connection.execute(
                f'select array_agg(agent_id_hash order by agent_id_hash collate "C") from {SCHEMA}.dim_agents'
            ).fetchone()
            said.append([fleet_tables(connection, MARTS, AS_OFS[-1])])
        for agent in agents:
            answers = [invoke("explain", agent, *options, *at(database)) for options in ([], ["--json"])]
            said[-1] += [re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "", answer.output) for answer in answers]
    assert said[0] == said[1]


def test_audit_treats_spellings_of_an_action_as_equal_in_any_locale(
    system_postgres: Server, turkish: str, tmp_path: Path
) -> None:
    agent = Agent(MIDDLE, 7)
    write(tmp_path, "batch.json", batch(agent.trace() for _ in range(3)))
    keys = write_keys(tmp_path, agent)
    with fresh_database(system_postgres, tmp_path, turkish) as database:
        assert command(database, "load", tmp_path / "batch.json", "--keys", keys).exit_code == 0
        with database.connect() as connection:
            connection.execute(
                "update cirislens.covenant_traces set selected_action"
                " = ' handleractiontype.' || lower(regexp_replace(selected_action, '^.*[.]', '') collate \"C\")"
            )
        result = command(database, "audit", tmp_path / "batch.json", "--keys", keys)
        assert result.exit_code == 0, result.output


def test_a_column_that_holds_different_texts_for_equal_is_refused(
    system_postgres: Server, turkish: str, tmp_path: Path
) -> None:
    with fresh_database(system_postgres, tmp_path, turkish) as database:
        with database.connect() as connection:
            load_rows(connection, fleet())
            connection.execute(
                "create collation caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
                "alter table cirislens.covenant_traces alter agent_name type text collate caseless"
            )
        refused = invoke("check", *at(database))
        assert refused.exit_code == 1
        said = " ".join(refused.output.split())
        assert 'agent_name is text collate caseless and must be text: "agent_name"::text collate "C"' in said


def test_a_page_is_made_where_the_locale_is_not_utf8() -> None:
    program = "from ciris_scoring.serve.pages.render import _asset; print(ascii(_asset('style.css')))"
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert r"\u2713" in printed(sys.executable, "-c", program, env={**os.environ, **ascii_alone})


# --- source files ----------------------------------------------------------------------------------------------------

SQL_FILES = [
    path
    for folder in ("models", "macros", "analyses", "tests/singular", "python/ciris_scoring")
    for path in (REPOSITORY / folder).rglob("*")
    if path.suffix in (".sql", ".py")
]


def test_case_functions_use_collation_c() -> None:
    """upper, lower and initcap are used with collate "C". Case-insensitive operators have no such option and are not
    used."""
    wrong = []
    for path in SQL_FILES:
        text = path.read_text("utf-8")
        for match in re.finditer(r"(?<![.\w])(upper|lower|initcap)\(", text):
            if 'collate "C")' not in text[match.end() :].partition("\n")[0]:
                wrong.append(f"{path.name}: {match[0]}")
        wrong += [
            f"{path.name}: {found}"
            for found in re.findall(
                r"\bilike\b|\bcitext\b|~\*|regexp_\w+\(.*'[a-z]*i[a-z]*'\)|\[\[:\w+:\]\]", text
            )
        ]
    assert wrong == []


def test_files_are_read_and_written_in_utf8() -> None:
    """Python's default encoding is that of the locale."""
    wrong = [
        f"{path.name}: {line.strip()}"
        for path in (REPOSITORY / "python").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\.(read|write)_text\(", line) and not re.search("[\"']utf-8[\"']", line)
    ]
    assert wrong == []
