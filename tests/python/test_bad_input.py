"""Tests of input that stops `ciris-scoring run` and plain dbt, and of incomplete input that is accepted.

A refusal is one error and one hint, which name the object, its value and the remedy. The exit code is not 0, and the
published rows are unchanged. Related tests: test_cli.py (database not available), test_malformed_rows.py (invalid
values in rows), test_gate.py (failures in the middle of a run).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from psycopg import sql

from ciris_scoring.database.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab.embedded import SCHEMA, Server, write_profile
from ciris_scoring.lab.simulation.fleet import simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet
from command_line import at, command, invoke, refused, succeeded
from conftest import REPOSITORY, Database, administer, fresh_database
from pipeline import LOG_OF_RUNS, RUN_TIMES, deciding, kept_parsed, parsed_for

NEWEST, OLDER = "2026-06-15T00:00:00Z", "2026-06-14"
COMPONENTS = ["thought_start", "dma_results", "conscience_result", "action_result"]


# --- helpers for databases, which other test files import ------------------------------------------------------------


@contextmanager
def fleet_database(server: Server, folder: Path) -> Iterator[Database]:
    """Create a database with a small unscored fleet up to NEWEST."""
    with fresh_database(server, folder) as database:
        with database.connect() as connection:
            load_fleet(connection, simulate_fleet(4, 10, 12.0, 1, datetime.fromisoformat(NEWEST)))
        yield database


@contextmanager
def saved(database: Database) -> Iterator[str]:
    """Copy a database to which no session is connected, and yield the name of the copy."""
    copy = f"saved_{uuid.uuid4().hex[:12]}"
    administer(database.server, f"create database {copy} template {database.name} strategy file_copy")
    try:
        yield copy
    finally:
        administer(database.server, f"drop database {copy}")


def restore(database: Database, copy: str) -> None:
    """Restore the saved state of a database under its name: dbt would parse the project again for a new name."""
    administer(database.server, f"drop database {database.name} with (force)")
    administer(database.server, f"create database {database.name} template {copy} strategy file_copy")


def marts(
    database: Database, *, schemas: Iterable[str] = (SCHEMA,), without: Iterable[str] = (), may_be_none: bool = False
) -> dict[str, str]:
    """Return the MD5 hash of the rows of each table and view of the schemas, except the run log.

    :param without: columns that are ignored.
    :param may_be_none: whether the schemas may be empty.
    """
    found = {}
    with database.connect() as connection:
        relations = connection.execute(
            """
            select n.nspname, c.relname, array_agg(a.attname order by a.attnum)
            from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
            join pg_attribute as a
                on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> all(%s)
            where n.nspname = any(%s) and c.relkind in ('r', 'v') and c.relname <> all(%s)
            group by 1, 2
            """,
            [list(without), list(schemas), list(LOG_OF_RUNS)],
        ).fetchall()
        assert relations or may_be_none
        for schema, name, columns in relations:
            query = sql.SQL(
                "select md5(coalesce(string_agg(r::text, E'\\n' order by r::text collate \"C\"), ''))"
                " from (select {} from {}) as r"
            ).format(sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(schema, name))
            [[found[f"{schema}.{name}"]]] = connection.execute(query).fetchall()
    return found


def built(database: Database) -> list[tuple]:
    """Return the relations that dbt built, with identifiers that change if dbt builds the relation again."""
    return database.execute(
        """
        select n.nspname, c.relname, c.oid, c.relfilenode
        from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname in ('ciris', 'ciris_staging', 'ciris_intermediate')
        order by 1, 2
        """
    )


@pytest.fixture
def published(small_fleet: Database, fleet_until: Callable[[str | None], str]) -> Database:
    restore(small_fleet, fleet_until(NEWEST))
    return small_fleet


# --- running commands ------------------------------------------------------------------------------------------------


def run(database: Database, *arguments: str, variables: Any = None, as_of: str | None = NEWEST) -> Result:
    """Run `ciris-scoring run` in this process, and fail if it raises an exception."""
    options = [*at(database), *arguments]
    if as_of is not None:
        options += ["--as-of", as_of]
    if variables is not None:
        options += ["--vars", json.dumps(variables)]
    with kept_parsed(database.profiles_dir, variables):
        result = invoke("run", *options)
    assert "Traceback" not in result.output
    return result


PARSED: dict[str, Any] = {}


@dataclass
class Dbt:
    """Result of a plain dbt command, with its errors and warnings."""

    exit_code: int
    output: str
    results: Any = None
    """Results of the nodes; None if dbt stopped before the first node."""


def refusal(result: Result | Dbt, exit_code: int | None = None) -> str:
    """Return the message of a failed command: the error and the hint of `ciris-scoring`, or the output of dbt."""
    if isinstance(result, Dbt):
        assert result.exit_code != 0
        return result.output
    assert result.exit_code != 0, result.output[-1000:]
    return "\n".join(refused(result, exit_code or result.exit_code))


def parsed(database: Database, variables: Any) -> Any:
    """Return the parsed project. It is cached for each set of variables that influence parsing."""
    from dbt.cli.main import dbtRunner

    key = parsed_for(database.profiles_dir, variables)
    if key not in PARSED:
        told = json.dumps(deciding(variables or {}))
        options = [*at(database), "--quiet", "--no-write-json", "--vars", told]
        outcome = dbtRunner().invoke(["parse", *options])
        assert outcome.success, outcome.exception
        PARSED[key] = outcome.result
    for node in PARSED[key].nodes.values():  # dbt would use the compiled code of the previous command
        if node.resource_type != "seed" and node.compiled:
            node.compiled = node.extra_ctes_injected = False
            node.extra_ctes = []
    return PARSED[key]


def dbt(database: Database, *command: str, variables: Any = None) -> Dbt:
    """Run plain dbt in this process without unit tests, and fail if it raises an exception.

    `dbt retry` uses the variables of the previous command; ``variables`` only select its target folder.
    """
    from dbt import selected_resources
    from dbt.cli.main import dbtRunner

    said: list[str] = []

    def listen(event: Any) -> None:
        if event.info.level in ("warn", "error"):
            said.append(event.info.msg)

    options = [*at(database), "--quiet", "--log-level", "none"]
    if command[0] == "build":
        options += ["--exclude-resource-type", "unit_test"]
    if variables is not None and command[0] != "retry":
        options += ["--vars", json.dumps(variables)]
    with kept_parsed(database.profiles_dir, variables):
        # Without the parsed project, dbt would parse it again, which takes longer than most tests of this file.
        manifest = None if command[0] == "parse" else parsed(database, variables)
        # dbt keeps the selection of a command for the process, and a later dbt retry would use it.
        selected_resources.set_selected_resources([])
        outcome = dbtRunner(manifest, callbacks=[listen]).invoke([*command, *options])
    text = "\n".join([*said, str(outcome.exception or "")])
    assert "Traceback" not in text
    return Dbt(int(not outcome.success), text, outcome.result)


# --- runs that are refused before anything is built ------------------------------------------------------------------


def test_run_that_would_write_through_a_view_is_refused(published: Database, tmp_path: Path) -> None:
    """dbt clone makes such views, and would run hooks that write through them."""
    published.execute(
        f"""
        alter table {SCHEMA}_intermediate.int_runs rename to original;
        alter table {SCHEMA}_intermediate.original set schema public;
        create view {SCHEMA}_intermediate.int_runs as select * from public.original
        """
    )
    before = marts(published, schemas=("public",))
    message = f"View {SCHEMA}_intermediate.int_runs has the name of a table"
    assert message in refusal(run(published))
    for command_ in ("build", "seed"):
        assert message in refusal(dbt(published, command_, variables={"ciris_as_of": NEWEST}))
    (tmp_path / "manifest.json").write_text(json.dumps(parsed(published, None).writable_manifest().to_dict()))
    clone = ("clone", "--full-refresh", "--select", "dim_agents", "--state", str(tmp_path))
    assert "dbt clone would make views" in refusal(dbt(published, *clone))
    assert marts(published, schemas=("public",)) == before


TOO_EARLY = "which is before the variable ciris_traces_from, 2020-01-01"
OLDER_THAN_PUBLISHED = [OLDER, "is before the newest published as-of, 2026-06-15", "(in plain dbt ciris_as_of)"]
REFRESH = ["schema ciris", "ciris_allow_rescoring: true", "omit --full-refresh"]
RUNS: list[tuple[list[str], dict[str, Any], list[str]]] = [
    (["--as-of", "9999-12-31T23:59-05:00"], {}, ["--as-of is '9999-12-31T23:59-05:00'", "0001 to 9999"]),
    (["--as-of", "0001-01-01"], {}, [f"--as-of is 0001-01-01T00:00:00Z, {TOO_EARLY}"]),
    (
        ["--as-of", OLDER],
        {"ciris_traces_from": "2026-06-15T02:00+02:00"},
        ["--as-of is 2026-06-14T00:00:00Z", "the variable ciris_traces_from, 2026-06-15T00"],
    ),
    (["--as-of", OLDER], {}, OLDER_THAN_PUBLISHED),
    ([], {"ciris_rescore_from": "2999-01-01"}, ["ciris_rescore_from is 2999-01-01", "after the run's as-of"]),
    ([], {"ciris_as_of": "2999-01-01"}, ["ciris_as_of is '2999-01-01'", "in the future"]),
    ([], {"ciris_source_schema": "nowhere"}, ["nowhere.covenant_traces is missing"]),
    (["--full-refresh"], {}, [*REFRESH, "--allow-rescoring"]),
]
"""Options and variables with which `ciris-scoring run` is refused, and texts that its message must contain."""
DBT: list[tuple[list[str], dict[str, Any], list[str]]] = [
    ([], {"ciris_as_of": "2026-02-30"}, ["ciris_as_of is '2026-02-30'", "ISO 8601"]),
    ([], {"ciris_as_of": "2999-01-01"}, ["ciris_as_of is 2999-01-01", "in the future"]),
    ([], {"ciris_as_of": OLDER}, OLDER_THAN_PUBLISHED),
    ([], {"ciris_as_of": "0001-01-01"}, [f"ciris_as_of is 0001-01-01 00:00:00+00:00, {TOO_EARLY}"]),
    (["--full-refresh"], {"ciris_as_of": NEWEST}, REFRESH),
    *((["--full-refresh", "--select", model], {"ciris_as_of": NEWEST},
       REFRESH)
      for model in ("int_windows", "fct_fleet_capacity", "int_scoring_run")),
    ([], {"ciris_as_of": NEWEST, "ciris_scoring_parameters": {"lamda_c": 5, "lambda_c": 1.9}},
     ["Unknown scoring parameter 'lamda_c' (value 5). Known are: ", "the variable ciris_scoring_parameters",
      "Scoring parameter lambda_c is 1.9, but must be a number in [2, 10]."]),
]  # fmt: skip
"""Options and variables with which `dbt build` is refused, and texts that its message must contain."""


def test_run_with_bad_options_or_sources_stops_before_building(published):
    before, rows = built(published), marts(published)
    for options, variables, expected in RUNS:
        said = refusal(run(published, *options, variables=variables, as_of=None))
        assert [text for text in expected if text not in said] == [], said
    for options, variables, expected in DBT:
        said = refusal(dbt(published, "build", *options, variables=variables))
        assert [text for text in expected if text not in said] == [], said
    published.execute("alter table cirislens.covenant_traces rename agent_name to elsewhere")
    missing = "cirislens.covenant_traces has no column agent_name"
    assert missing in refusal(run(published))
    assert missing in refusal(dbt(published, "build", variables={"ciris_as_of": NEWEST}))
    assert (built(published), marts(published)) == (before, rows)


def test_as_of_in_the_future_of_the_server_is_refused(published, monkeypatch):
    """The clock of this machine is 40 days ahead, or was so in an earlier run."""
    server = datetime.now(UTC)

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return server + timedelta(days=40)

    with monkeypatch.context() as patch:
        patch.setattr("ciris_scoring.job.run.datetime", Ahead)
        said = refusal(run(published, as_of=None))
        assert "in the future (the server's time is " in said and "that of this machine" in said
    log = "select as_of, published_until from ciris_intermediate.int_runs where published_at is not null"
    published.execute("update ciris_intermediate.int_runs set published_until = now() + interval '40 days'")
    remedy = "ciris-scoring run --full-refresh --allow-rescoring"
    for said in map(refusal, (run(published), dbt(published, "build", variables={"ciris_as_of": NEWEST}))):
        assert "which is in the future" in said and remedy in said, said
    succeeded(run(published, *remedy.split()[2:]))
    assert (datetime.fromisoformat(NEWEST),) * 2 in published.execute(log)
    succeeded(run(published))


# --- tables of another version of the project ------------------------------------------------------------------------

OF_ANOTHER_VERSION = f"""
    alter table {SCHEMA}.fct_red_flags rename red_flag to sign;
    alter table {SCHEMA}_intermediate.int_scoring_run drop column published_by;
    alter table {SCHEMA}_intermediate.int_runs drop column message cascade;
    update {SCHEMA}_intermediate.int_runs set version = '0.9.3'
    """


def test_tables_of_another_version_are_built_again_by_a_full_refresh(published):
    published.execute(OF_ANOTHER_VERSION)
    for said in map(refusal, (run(published), dbt(published, "build", variables={"ciris_as_of": NEWEST}))):
        assert "Version 0.9.3 of this project built the tables of schema ciris" in said, said
        assert "ciris-scoring run --full-refresh --allow-rescoring" in said, said
    assert "there is no fct_red_flags.red_flag" in refusal(command(published, "fleet"))
    published.execute(f"create view public.of_others as select capacity_score from {SCHEMA}.fct_capacity_scores")
    said = refusal(run(published, "--full-refresh", "--allow-rescoring"))
    assert "view public.of_others depends on" in said, said
    published.execute("drop view public.of_others")
    succeeded(run(published, "--full-refresh", "--allow-rescoring"))
    found = marts(published, without=RUN_TIMES)
    with published.connect() as connection:
        for layer in ("", "_staging", "_intermediate"):
            connection.execute(f"drop schema {SCHEMA}{layer} cascade")
    succeeded(run(published))
    assert marts(published, without=RUN_TIMES) == found


def test_missing_table_is_refused_and_missing_views_are_built(published):
    rows = marts(published, without=RUN_TIMES)
    published.execute(f"drop view {SCHEMA}.fct_trace_checks, {SCHEMA}_intermediate.int_integrity cascade")
    succeeded(run(published))
    assert marts(published, without=RUN_TIMES) == rows
    published.execute(f"drop table {SCHEMA}_intermediate.int_replays cascade")
    said = refusal(run(published))
    assert "Table ciris_intermediate.int_replays is missing although scores are published" in said, said


# --- sources that cannot be read -------------------------------------------------------------------------------------

SourceFault = tuple[str, list[str]]
"""Statements that make the sources unreadable, and texts that the message must contain."""


def missing(table: str, column: str = "", *further: str) -> SourceFault:
    """Return a source fault: a table or a column is missing."""
    if column:
        change = f'alter table cirislens.{table} drop column "{column}" cascade'
        told = [f"cirislens.{table} has no column {column}", f"the variable ciris_{table}_table", *further]
        return change, told
    change = f"alter table cirislens.{table} rename to {table}_elsewhere"
    told = [f"cirislens.{table} is missing", f"the variables ciris_source_schema and ciris_{table}_table"]
    return change, told


def wrong_types(table: str, **columns: tuple[str, str]) -> SourceFault:
    """Return a source fault: columns of a table have wrong types.

    :param columns: type of each column, and the expression that the message recommends.
    """
    told = [
        f"cirislens.{table} has columns of types that cannot be read",
        *(f"{column} is {kind} and must be " for column, (kind, _) in columns.items()),
        *(cast for _, cast in columns.values()),
        f"the variable ciris_{table}_table to a view that selects them in this way",
    ]
    altered = ", ".join(f'alter "{column}" type {kind} using null' for column, (kind, _) in columns.items())
    change = f"""
        alter table cirislens.{table} rename to {table}_as_it_was;
        create table cirislens.{table} as select * from cirislens.{table}_as_it_was limit 0;
        alter table cirislens.{table} {altered}
    """
    return change, told


SOURCES: list[list[SourceFault]] = [
    [missing(table) for table in SOURCE_TABLES],
    [
        missing("covenant_traces", "conscience_result", "replay_enabled to false"),
        wrong_types(
            "wbd_deferrals",
            deferral_id=("bytea", """encode("deferral_id", 'hex')"""),
            created_at=("bigint", 'to_timestamp("created_at") where it counts seconds'),
            resolved_at=("date", """"resolved_at"::timestamp at time zone 'UTC'"""),
        ),
        missing("covenant_public_keys", "revoked_at"),
        wrong_types(
            "covenant_trace_batches",
            batch_timestamp=("text", '"batch_timestamp"::timestamptz'),
            traces_received=("text", '"traces_received"::numeric'),
            batch_id=("numeric", '"batch_id"::text'),
        ),
    ],
    [wrong_types(
        "covenant_traces",
        timestamp=("timestamp without time zone", """"timestamp" at time zone 'UTC'"""),
        signature_verified=("integer", '"signature_verified" <> 0'),
        action_success=("text", '"action_success"::boolean'),
        coherence_level=("text", '"coherence_level"::numeric'),
        idma_k_eff=("boolean", '"idma_k_eff"::integer'),
        audit_sequence_number=("double precision", '"audit_sequence_number"::numeric'),
        agent_id_hash=("bytea", """encode("agent_id_hash", 'hex')"""),
        trace_id=("bigint", '"trace_id"::text'),
        agent_name=("jsonb", """"agent_name" #>> '{}'"""),
        thought_start=("text", '"thought_start"::jsonb'),
        dma_results=("bytea", """convert_from("dma_results", 'UTF8')::jsonb"""),
        action_result=("text[]", 'to_jsonb("action_result")'),
    )],
]  # fmt: skip
"""Lists of faults. The sources have all faults of a list at the same time."""


def test_check_lists_all_faults_of_all_sources(module_database):
    for faults_of_sources in SOURCES:
        with module_database.connect() as connection:
            create_source_tables(connection)
            for change, _ in faults_of_sources:
                connection.execute(change)
            result = command(module_database, "check", "--json")
            connection.execute("drop schema cirislens cascade")
        assert result.exit_code == 1
        assert built(module_database) == []
        found = json.loads(result.stdout)
        assert found["run"] is None
        faults = [fault["message"] for fault in found["faults"]]
        assert len(faults) == len(faults_of_sources)
        said = " ".join(faults)
        assert [text for _, told in faults_of_sources for text in told if text not in said] == [], said


# --- databases and profiles ------------------------------------------------------------------------------------------


SCHEMAS = {
    "s" * 51: f"Schema {'s' * 51}_intermediate has 64 bytes, but PostgreSQL keeps 63 of a name.",
    "pg_catalog": "The schema of the profile is 'pg_catalog', but must be a name",
    "50%": "The schema of the profile is '50%', but must be a name",
    "o'neil": 'The schema of the profile is "o\'neil", but must be a name',
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_that_cannot_be_used_is_refused(small_fleet, tmp_path, schema):
    write_profile(tmp_path, small_fleet.server, database=small_fleet.name, schema=schema)
    result = invoke("run", "--profiles-dir", tmp_path, "--project-dir", REPOSITORY, "--as-of", NEWEST)
    assert SCHEMAS[schema] in refusal(result)


def test_an_encoding_other_than_utf8_is_refused(embedded_postgres, tmp_path):
    database = Database(embedded_postgres, "test_latin1", tmp_path)
    write_profile(tmp_path, embedded_postgres, database=database.name)
    administer(embedded_postgres, "create database test_latin1 template template0 encoding 'LATIN1' locale 'C'")
    try:
        with database.connect() as connection:
            create_source_tables(connection)
        plain = dbt(database, "build", variables={"ciris_as_of": NEWEST})
        for said in (refusal(run(database), 1), refusal(plain)):
            parts = ("test_latin1", "has the encoding LATIN1", "must be UTF8", "encoding 'UTF8'", "pg_dump")
            assert [part for part in parts if part not in said] == [], said
        # Plain dbt creates the run log to record the refusal.
        assert {schema for schema, *_ in built(database)} == {f"{SCHEMA}_intermediate"}
    finally:
        administer(embedded_postgres, "drop database test_latin1 with (force)")


# --- parameters that differ from published parameters ----------------------------------------------------------------

CHANGED = {"ciris_scoring_parameters": {"lambda_c": 6}}
REMEDIES = ["Go back to those", "--full-refresh", "--allow-rescoring", "'ciris_allow_rescoring: true'"]


def test_run_with_a_changed_parameter_stops_before_scores_change(published):
    """The refusal cannot be a dbt test of the data, because `dbt run` skips tests and would mix two parameter sets."""
    schemas = (SCHEMA, f"{SCHEMA}_intermediate")
    before = marts(published, schemas=schemas)
    variables = {"ciris_as_of": NEWEST, **CHANGED}
    plain = [dbt(published, kind, variables=variables) for kind in ("build", "run")]
    for said in map(refusal, (run(published, variables=CHANGED), *plain)):
        expected = ["parameter_set_id", "schema ciris", *REMEDIES]
        assert [text for text in expected if text not in said] == [], said
    part = dbt(published, "build", "--select", "int_windows+", variables=variables)
    assert "can only be built with the parameters of the run that it continues" in refusal(part)
    after = marts(published, schemas=schemas)
    assert after == before


def test_a_full_refresh_uses_the_changed_parameter(published):
    log = (
        "select is_full_refresh, parameter_set_id from ciris_intermediate.int_runs"
        " where published_at is not null order by published_at"
    )
    succeeded(run(published, "--full-refresh", "--allow-rescoring", variables=CHANGED))
    [(was_full, old), (is_full, new)] = published.execute(log)
    assert (was_full, is_full) == (False, True) and new != old
    ids = "select distinct parameter_set_id from ciris.fct_capacity_scores"
    assert published.execute(ids) == [(new,)]


# --- accepted input --------------------------------------------------------------------------------------------------


def test_sources_without_components_deferrals_and_keys_are_scored(restored):
    drops = ", ".join(f"drop column {component}" for component in COMPONENTS)
    restored.execute(f"alter table cirislens.covenant_traces {drops}")
    restored.execute("truncate cirislens.wbd_deferrals, cirislens.covenant_public_keys")
    message = refusal(run(restored))
    assert f"has no column {', '.join(COMPONENTS)}." in message
    assert "or the scoring parameter replay_enabled to false" in message

    parameters = {"ciris_scoring_parameters": {"replay_enabled": False}}
    result = succeeded(run(restored, variables=parameters))
    assert "Fleet at 2026-06-15T00:00:00Z" in result.stdout
    assert "Note: cirislens.wbd_deferrals holds no deferral, so the quality of deferrals" in result.stderr
    assert "Note: cirislens.covenant_public_keys holds no key, so no signature" in result.stderr
    query = (
        "select count(*) > 0, bool_and('i_replay' = any(unmeasured_components)), max(i_int_score)"
        " from ciris.fct_capacity_scores"
    )
    assert restored.execute(query) == [(True, True, 0)]


def test_without_traces_there_are_no_scores(restored):
    restored.execute("truncate cirislens.covenant_traces")
    result = succeeded(run(restored))
    assert "the fleet table is empty" in result.stdout
    assert "Note: cirislens.covenant_traces holds no trace before 2026-06-15T00:00:00Z" in result.stderr
    for mart in ("fct_capacity_scores", "fct_fleet_capacity", "fct_capacity_alerts", "dim_agents"):
        assert restored.execute(f"select count(*) from ciris.{mart}") == [(0,)], mart
