"""Tests of input that must or must not stop a run, through the command line and plain dbt.

A refusal is one error and one hint that name the object, its value and the remedy. The exit code is not 0, and the
published rows are unchanged. Related tests: test_cli.py (database not available, `simulate` into a table with
traces), test_equals_reference.py (invalid values in rows), test_gate.py (failures in the middle of a run).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import Result
from psycopg import sql

from ciris_scoring.basics.dbt import forget_compiled
from ciris_scoring.basics.errors import shown
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.job import acknowledge
from ciris_scoring.lab.embedded import SCHEMA, Server, write_profile
from ciris_scoring.lab.simulation import simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet
from command_line import at, invoke, refused
from conftest import REPOSITORY, Database, fresh_database
from pipeline import LOG_OF_RUNS, deciding, kept_parsed, parsed_for

NEWEST, OLDER = "2026-06-15T00:00:00Z", "2026-06-14"
COMPONENTS = ["thought_start", "dma_results", "conscience_result", "action_result"]


# --- databases; test_gate.py and others import these helpers ---------------------------------------------------------


@contextmanager
def fleet_database(server: Server, folder: Path) -> Iterator[Database]:
    """Create a database with a small unscored fleet up to NEWEST."""
    with fresh_database(server, folder) as database:
        with database.connect() as connection:
            load_fleet(connection, simulate_fleet(4, 10, 12.0, 1, datetime.fromisoformat(NEWEST)))
        yield database


@contextmanager
def saved(database: Database) -> Iterator[str]:
    """Save the state of a database to which no session is connected; yields the name of the copy."""
    copy = f"saved_{uuid.uuid4().hex[:12]}"
    with administration(database) as connection:
        connection.execute(f"create database {copy} template {database.name} strategy file_copy")
    try:
        yield copy
    finally:
        with administration(database) as connection:
            connection.execute(f"drop database {copy}")


def restore(database: Database, copy: str) -> None:
    """Restore a saved state. The database keeps its name, because dbt would parse the project
    again for another name.
    """
    with administration(database) as connection:
        connection.execute(f"drop database {database.name} with (force)")
        connection.execute(f"create database {database.name} template {copy} strategy file_copy")


def administration(database: Database) -> psycopg.Connection:
    return psycopg.connect(database.server.conninfo("postgres"), autocommit=True)


def fingerprints(
    connection: psycopg.Connection,
    *schemas: str,
    kinds: str = "rv",
    without: Iterable[str] = (),
    may_be_none: bool = False,
) -> dict[str, str]:
    """Return the md5 of the rows of each relation of the given kinds and schemas, except the run log.

    :param without: columns that are ignored.
    """
    relations = connection.execute(
        """
        select n.nspname, c.relname, array_agg(a.attname order by a.attnum)
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        join pg_attribute as a
            on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> all(%s)
        where n.nspname = any(%s) and c.relkind::text = any(%s) and c.relname <> all(%s)
        group by 1, 2
        """,
        [list(without), list(schemas), list(kinds), list(LOG_OF_RUNS)],
    ).fetchall()
    assert relations or may_be_none
    rows_md5 = sql.SQL(
        """
        select md5(coalesce(string_agg(r::text, E'\n' order by r::text collate "C"), ''))
        from (select {} from {}) as r
        """
    )
    found = {}
    for schema, name, columns in relations:
        query = rows_md5.format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(schema, name)
        )
        [[found[f"{schema}.{name}"]]] = connection.execute(query).fetchall()
    return found


def marts(database: Database, **how: Any) -> dict[str, str]:
    """Return the fingerprints of all marts."""
    with database.connect() as connection:
        return fingerprints(connection, SCHEMA, **how)


def built(database: Database) -> list[tuple]:
    """Return the relations that dbt built with the identifiers of relation and file. They change if dbt builds one
    again."""
    with database.connect() as connection:
        return connection.execute(
            """
            select n.nspname, c.relname, c.oid, c.relfilenode
            from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname in ('ciris', 'ciris_staging', 'ciris_intermediate')
            order by 1, 2
            """
        ).fetchall()


@pytest.fixture(scope="module")
def fleet(small_fleet: Database) -> Database:
    """The fleet, which each test may change."""
    return small_fleet


@dataclass
class States:
    """Saved states of the fleet, unscored and scored, and the fingerprints of the published marts."""

    arrived: str
    scored: str
    marts: dict[str, str]
    is_scored: bool = True
    """Whether the fleet is in the scored state, apart from the run log."""


@pytest.fixture(scope="module")
def states(fleet: Database) -> Iterator[States]:
    with saved(fleet) as arrived:
        assert run(fleet).exit_code == 0
        with saved(fleet) as scored:
            yield States(arrived, scored, marts(fleet))


@pytest.fixture
def unscored(fleet: Database, states: States) -> Database:
    states.is_scored = False
    restore(fleet, states.arrived)
    return fleet


@pytest.fixture
def published(fleet: Database, states: States) -> Database:
    if not states.is_scored:
        restore(fleet, states.scored)
    states.is_scored = False  # until the test has checked it
    return fleet


@pytest.fixture
def published_marts(states: States) -> dict[str, str]:
    return states.marts


# --- running commands ------------------------------------------------------------------------------------------------


def run(
    database: Database,
    *arguments: str,
    variables: Any = None,
    as_of: str | None = NEWEST,
    command: str = "run",
) -> Result:
    """Run `ciris-scoring run` or another command, and fail if it raises an exception."""
    options = [*at(database), *arguments]
    if as_of is not None:
        options += ["--as-of", as_of]
    if variables is not None:
        options += ["--vars", variables if isinstance(variables, str) else json.dumps(variables)]
    with kept_parsed(database.profiles_dir, variables):
        result = invoke(command, *options)
    assert "Traceback" not in result.output
    return result


def refusal(result: Result, exit_code: int | None = None) -> str:
    """Return error and hint of a command that failed without a result; each must be one line."""
    assert result.exit_code != 0, result.output[-1000:]
    return "\n".join(refused(result, exit_code or result.exit_code))


PARSED: dict[str, Any] = {}


@dataclass
class Dbt:
    """Result of a plain dbt command, with its errors and warnings."""

    succeeded: bool
    """Whether the exit code is 0."""
    said: str
    results: Any = None


def parsed(database: Database, variables: Any) -> Any:
    """Return the parsed project for the variables that influence parsing. It is cached for all tests."""
    from dbt.cli.main import dbtRunner

    key = parsed_for(database.profiles_dir, variables)
    if key not in PARSED:
        told = json.dumps(deciding(variables or {}))
        options = [*at(database), "--quiet", "--no-write-json", "--vars", told]
        outcome = dbtRunner().invoke(["parse", *options])
        assert outcome.success, outcome.exception
        PARSED[key] = outcome.result
    forget_compiled(PARSED[key])
    return PARSED[key]


def dbt(database: Database, *command: str, variables: Any = None) -> Dbt:
    """Run plain dbt in this process without unit tests, and fail if it raises an exception."""
    from dbt import selected_resources
    from dbt.cli.main import dbtRunner

    said: list[str] = []

    def listen(event: Any) -> None:
        if event.info.level in ("warn", "error"):
            said.append(event.info.msg)

    options = [*at(database), "--quiet", "--log-level", "none"]
    if command[0] == "build":
        options += ["--exclude-resource-type", "unit_test"]
    if variables is not None:
        options += ["--vars", json.dumps(variables)]
    with kept_parsed(database.profiles_dir, variables):
        # The manifest is reused, because dbt parses again for other variables, which takes longer than most of these
        # tests.
        manifest = None if command[0] == "parse" else parsed(database, variables)
        # dbt retry would otherwise use the selection of the previous command in this process.
        selected_resources.set_selected_resources([])
        outcome = dbtRunner(manifest, callbacks=[listen]).invoke([*command, *options])
    text = "\n".join([*said, str(outcome.exception or "")])
    assert "Traceback" not in text
    return Dbt(outcome.success, text, outcome.result)


# --- refused before anything is built --------------------------------------------------------------------------------


NO_CHANGE = "select"


@dataclass
class Case:
    """Invalid input and the texts that the message must contain. `change` is executed in the database first."""

    name: str
    expected: list[str]
    variables: Any = None
    change: str = NO_CHANGE
    arguments: list[str] = field(default_factory=list)
    as_of: str | None = NEWEST


def missing(table: str, column: str = "", *further: str) -> Case:
    """Return a case with a missing table or column."""
    if column:
        expected = [
            f"cirislens.{table} has no column {column}",
            f"the variable ciris_{table}_table",
            *further,
        ]
        change = f'alter table cirislens.{table} drop column "{column}" cascade'
        return Case(f"no {column}", expected, change=change)
    expected = [f"cirislens.{table} is missing", f"the variables ciris_source_schema and ciris_{table}_table"]
    return Case(f"no {table}", expected, change=f"alter table cirislens.{table} rename to {table}_elsewhere")


def wrong_types(table: str, **columns: tuple[str, str] | tuple[str, str, str]) -> Case:
    """Return a case with columns of wrong types: the type, the cast to select instead, and the declared type."""
    expected = [
        f"cirislens.{table} has columns of types that cannot be read",
        *(f"{column} is {(kind, *told)[-1]} and must be " for column, (kind, _, *told) in columns.items()),
        *(cast for _, cast, *_ in columns.values()),
        f"the variable ciris_{table}_table to a view that selects them so",
    ]
    altered = ", ".join(f'alter "{column}" type {kind} using null' for column, (kind, *_) in columns.items())
    change = f"""
        alter table cirislens.{table} rename to {table}_as_it_was;
        create table cirislens.{table} as select * from cirislens.{table}_as_it_was limit 0;
        alter table cirislens.{table} {altered}
    """
    return Case(f"types of {table}: {', '.join(columns)}", expected, change=change)


def bad_parameters(*rows: tuple[str, Any, str]) -> Case:
    """Return a case with several invalid parameter values and an unknown parameter."""
    values = {parameter: value for parameter, value, _ in rows} | {"lamda_c": 5}
    expected = [
        "Unknown scoring parameter 'lamda_c' (value 5). Known are: ",
        "the variable ciris_scoring_parameters",
    ]
    expected += [
        f"Scoring parameter {name} is {shown(value)}, but must be {allowed}." for name, value, allowed in rows
    ]
    return Case(f"parameters {values}", expected, {"ciris_scoring_parameters": values})


MISSING = [missing("covenant_traces"), missing("covenant_traces", "agent_name")]
WRONG_TYPE = wrong_types(
    "covenant_traces",
    timestamp=("timestamp", """"timestamp" at time zone 'UTC'""", "timestamp without time zone"),
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
)
OUT_OF_RANGE = bad_parameters(
    ("lambda_c", 1.9, "a number in [2, 10]"),
    ("mu_c", "five", "a number in [5, 20]"),
    ("min_traces", 2.5, "a whole number in [1, 1000000]"),
    ("require_registered_keys", 1, "true or false"),
    ("replay_sample_salt", True, "text, in quotes"),
)
OLDER_EXPECTED = [
    "2026-06-14",
    "precedes the newest published one, 2026-06-15",
    "(in plain dbt ciris_as_of) out",
]
REFRESH_EXPECTED = [
    "schema ciris",
    "int_trace_checks",
    "ciris_allow_rescoring: true",
    "leave --full-refresh out",
]
TOO_EARLY = "which lies before the variable ciris_traces_from, 2020-01-01"
CASES = [
    *MISSING,
    Case("no schema", ["nowhere.covenant_traces is missing"], {"ciris_source_schema": "nowhere"}),
    WRONG_TYPE,
    OUT_OF_RANGE,
    Case("malformed as-of", ["--as-of is 'last week'", "ISO 8601"], as_of="last week"),
    Case("impossible as-of", ["--as-of is '2026-02-30'", "ISO 8601"], as_of="2026-02-30"),
    Case("impossible variable", ["as_of", "2026-02-30"], "{ciris_as_of: 2026-02-30}", as_of=None),
    Case("future", ["ciris_as_of is '2999-01-01'", "in the future"], {"ciris_as_of": "2999-01-01"}, as_of=None),
    Case("at the end", ["--as-of is '9999-12-31T23:59-05:00'", "0001 to 9999"], as_of="9999-12-31T23:59-05:00"),
    Case("before any trace", [f"--as-of is 0001-01-01T00:00:00Z, {TOO_EARLY}"], as_of="0001-01-01"),
    Case("before traces_from", ["--as-of is 2026-06-14T00:00:00Z", "the variable ciris_traces_from, 2026-06-15T00"],
         {"ciris_traces_from": "2026-06-15T02:00+02:00"}, as_of=OLDER),
    Case("backfill too early", [f"--from is 0999-12-31T00:00:00Z, {TOO_EARLY}"],
         arguments=["--from", "0999-12-31T01:00:00Z", "--to", OLDER], as_of=None),
    Case("older than the newest", OLDER_EXPECTED, as_of=OLDER),
    Case("full refresh", [*REFRESH_EXPECTED, "--allow-rescoring"], arguments=["--full-refresh"]),
]  # fmt: skip
SOURCES = [
    [missing(table) for table in SOURCE_TABLES],
    [
        missing("covenant_traces", "conscience_result", "replay_enabled to false"),
        wrong_types("wbd_deferrals", deferral_id=("bytea", """encode("deferral_id", 'hex')""")),
        missing("covenant_public_keys", "revoked_at"),
        wrong_types("covenant_trace_batches", traces_received=("text", '"traces_received"::numeric'),
                    batch_id=("numeric", '"batch_id"::text')),
    ],
    [
        wrong_types("covenant_traces", timestamp=("bigint", 'to_timestamp("timestamp") where it counts seconds')),
        Case("types and a missing column",
             ["cirislens.wbd_deferrals has no column status, and it has columns of types that cannot be read",
              """resolved_at is date and must be timestamptz: "resolved_at"::timestamp at time zone 'UTC'"""],
             change="alter table cirislens.wbd_deferrals drop status, alter resolved_at type date"),
        wrong_types("covenant_public_keys", revoked_at=("date", """"revoked_at"::timestamp at time zone 'UTC'""")),
    ],
    [wrong_types("covenant_traces", timestamp=("text", '"timestamp"::timestamptz'))],
]  # fmt: skip
"""Faults that can be in the sources at the same time."""
DBT_CASES = [
    *MISSING,
    WRONG_TYPE,
    OUT_OF_RANGE,
    *(Case(f"full refresh of {model}", [f"would rebuild {model})", "ciris_allow_rescoring: true"],
           arguments=["--full-refresh", "--select", model]) for model in ("int_windows", "fct_fleet_capacity")),
    Case("full refresh", REFRESH_EXPECTED, arguments=["--full-refresh"]),
    Case("impossible", ["ciris_as_of is '2026-02-30'", "ISO 8601"], {"ciris_as_of": "2026-02-30"}),
    Case("future", ["ciris_as_of is 2999-01-01", "in the future"], {"ciris_as_of": "2999-01-01"}),
    Case("older than the newest", OLDER_EXPECTED, {"ciris_as_of": OLDER}),
    Case("before any trace", [f"ciris_as_of is 0001-01-01 00:00:00+00:00, {TOO_EARLY}"], {"ciris_as_of": "0001-01-01"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "case"),
    [*(("run", case) for case in CASES), *(("dbt", case) for case in DBT_CASES)],
    ids=lambda one: one.name if isinstance(one, Case) else one,
)
def test_a_run_stops_before_building(published, published_marts, states, command, case):
    with published.connect() as connection:
        connection.execute(case.change)
    before = built(published)
    if command == "run":
        said = refusal(run(published, *case.arguments, variables=case.variables, as_of=case.as_of))
    else:
        variables = {"ciris_as_of": NEWEST, **(case.variables or {})}
        outcome = dbt(published, "build", *case.arguments, variables=variables)
        assert not outcome.succeeded
        said = outcome.said
    assert [text for text in case.expected if text not in said] == [], said
    assert built(published) == before
    assert marts(published) == published_marts
    states.is_scored = case.change == NO_CHANGE


@pytest.mark.parametrize("cases", SOURCES, ids=lambda cases: cases[0].name)
def test_check_lists_the_faults_of_all_sources(module_database, cases):
    with module_database.connect() as connection:
        create_source_tables(connection)
        for case in cases:
            connection.execute(case.change)
        result = invoke("check", "--json", *at(module_database))
        connection.execute("drop schema cirislens cascade")
    assert result.exit_code == 1
    assert built(module_database) == []
    found = json.loads(result.stdout)
    assert (found["run"], found["encoding"]) == (None, "UTF8")
    faults = [fault["message"] for fault in found["faults"]]
    assert len(faults) == len(cases)
    said = " ".join(faults)
    assert [text for case in cases for text in case.expected if text not in said] == [], said


def test_a_schema_whose_name_postgresql_shortens_is_refused(fleet, tmp_path):
    write_profile(tmp_path, fleet.server, database=fleet.name, schema="s" * 51)
    result = invoke("run", "--profiles-dir", tmp_path, "--project-dir", REPOSITORY, "--as-of", NEWEST)
    error, _ = refused(result)
    assert f"Schema {'s' * 51}_intermediate has 64 bytes, but PostgreSQL keeps 63 of a name." in error


def test_a_profile_with_autocommit_is_refused(fleet, tmp_path):
    """Without transactions a reader could see a half-built model."""
    path = write_profile(tmp_path, fleet.server, database=fleet.name)
    path.write_text(path.read_text() + "      autocommit: true\n")
    outcome = dbt(Database(fleet.server, fleet.name, tmp_path), "build", variables={"ciris_as_of": NEWEST})
    assert not outcome.succeeded
    assert "Target dev has autocommit: true" in outcome.said


def test_an_encoding_other_than_utf8_is_refused(embedded_postgres, tmp_path):
    database = Database(embedded_postgres, "test_latin1", tmp_path)
    write_profile(tmp_path, embedded_postgres, database=database.name)
    with administration(database) as connection:
        connection.execute("create database test_latin1 template template0 encoding 'LATIN1' locale 'C'")
    try:
        with database.connect() as connection:
            create_source_tables(connection)
        plain = dbt(database, "build", variables={"ciris_as_of": NEWEST})
        assert not plain.succeeded
        for said in (refusal(run(database), 1), plain.said):
            for part in (
                "test_latin1",
                "has the encoding LATIN1",
                "must be UTF8",
                "encoding 'UTF8'",
                "pg_dump",
            ):
                assert part in said
        with database.connect() as connection:
            # Plain dbt creates the run log to record the refusal.
            found = connection.execute(
                "select relname from pg_class where relname ~ '^(int|fct|dim)_' and relkind = 'r'"
            )
            assert found.fetchall() == [("int_runs",)]
    finally:
        with administration(database) as connection:
            connection.execute("drop database test_latin1 with (force)")


def test_plain_dbt_refuses_while_a_run_holds_the_lock(published, published_marts):
    before = built(published)
    with published.connect() as other, run_lock(other, SCHEMA) as pid:
        outcome = dbt(published, "build", variables={"ciris_as_of": NEWEST})
    assert not outcome.succeeded
    assert f"Another run holds the lock on schema ciris (database process {pid})" in outcome.said
    assert "Wait until it has ended." in outcome.said
    assert built(published) == before
    assert marts(published) == published_marts


# --- parameters that differ from the published ones ------------------------------------------------------------------

CHANGED = {"ciris_scoring_parameters": {"lambda_c": 6}}
CHANGED_EXPECTED = [
    "parameter_set_id",
    "schema ciris",
    "Go back to those",
    "--full-refresh",
    "--allow-rescoring",
    "'ciris_allow_rescoring: true'",
]
# Relations that describe the refused run and are not used for scores.
OF_THE_RUN = {
    "ciris_intermediate.int_scoring_run",
    "ciris_intermediate.int_scoring_parameters",
    "ciris_intermediate.int_source_periods",
}


def tables(database: Database) -> dict[str, str]:
    """Return the fingerprints of all tables except those that describe a single run."""
    with database.connect() as connection:
        found = fingerprints(connection, SCHEMA, f"{SCHEMA}_intermediate", kinds="r")
    return {name: rows for name, rows in found.items() if name not in OF_THE_RUN}


def test_a_changed_parameter_stops_before_anything_changes(published, published_marts):
    before = tables(published)
    message = refusal(run(published, variables=CHANGED))
    assert [text for text in CHANGED_EXPECTED if text not in message] == [], message
    assert tables(published) == before
    assert marts(published) == published_marts

    # `dbt run` skips tests, so a test alone could not prevent mixing the scores of two parameter sets.
    for command in ("build", "run"):
        outcome = dbt(published, command, variables={"ciris_as_of": NEWEST, **CHANGED})
        assert not outcome.succeeded
        assert [text for text in CHANGED_EXPECTED if text not in outcome.said] == [], outcome.said
        assert tables(published) == before
        assert marts(published) == published_marts


def test_a_full_refresh_of_the_runs_own_tables_rescores_nothing(published):
    """These tables are not incremental, but they decide how much a run scores again, and with which parameters."""
    scores = "ciris.fct_capacity_scores"
    before = marts(published, without=("scored_at",))[scores]
    variables = {"ciris_as_of": NEWEST, "ciris_scoring_parameters": {"min_traces": 1}}
    own = ("int_scoring_parameters", "int_source_periods", "int_scoring_run")
    refused = dbt(published, "run", "--full-refresh", "--select", *own, variables=variables)
    assert not refused.succeeded and "would rebuild int_scoring_run)" in refused.said
    dbt(published, "build", "--select", "fct_capacity_scores+", variables=variables)
    assert marts(published, without=("scored_at",))[scores] == before, "rescored without allow_rescoring"


def test_models_built_separately_after_a_refused_parameter_do_not_use_it(published, published_marts):
    """After a run with another parameter was refused, the statistics and all models after them are built separately."""
    statistics = (
        "select agent_id_hash, as_of, window_days, delta_drift, r_score from ciris_intermediate.int_windows"
    )
    with published.connect() as connection:
        before = set(connection.execute(statistics).fetchall())
        refusal(run(published, variables={"ciris_scoring_parameters": {"norm_k": 10}}))
        # Delete rows so that they have to be computed.
        connection.execute("delete from ciris_intermediate.int_windows where as_of = %s", [NEWEST])
        part = dbt(published, "build", "--select", "int_windows+", variables={"ciris_as_of": NEWEST})
        wrong = set(connection.execute(statistics).fetchall()) - before
    assert len(wrong) == 0, "r_score of the refused norm_k, under the digest of the published one"
    assert part.succeeded or "parameter" in part.said
    left = marts(published, without=("scored_at",))["ciris.fct_factor_components"]
    assert left == published_marts["ciris.fct_factor_components"]


def test_a_full_refresh_that_is_allowed_is_logged(published, published_marts):
    """The run log records the permission. The message about a changed parameter names a full refresh as the remedy."""
    log = (
        "select is_full_refresh, parameter_set_id, published_until, newest_as_of"
        " from ciris_intermediate.int_runs where published_at is not null order by published_at"
    )
    with published.connect() as connection:
        [first] = connection.execute(log).fetchall()
        table = sql.Identifier("ciris", "ciris_acknowledgements")
        connection.execute(sql.SQL(acknowledge.CREATE).format(table=table))
        connection.execute(
            "insert into ciris.ciris_acknowledgements (agent_id_hash, kind, action, seen_by)"
            " values ('a', 'b', 'withdraw', 'c')"
        )
        acknowledged = connection.execute("table ciris.ciris_acknowledgements").fetchall()
        result = run(published, "--full-refresh", "--allow-rescoring", variables=CHANGED)
        assert result.exit_code == 0, result.output
        assert connection.execute("table ciris.ciris_acknowledgements").fetchall() == acknowledged
        connection.execute("drop table ciris.ciris_acknowledgements")
        [old, new] = connection.execute(log).fetchall()
        assert old == first
        newest = datetime.fromisoformat(NEWEST)
        assert (old[0], new[0]) == (False, True)
        assert new[2:] == old[2:] == (newest, newest)
        assert new[1] != old[1]
        for mart in ("fct_capacity_scores", "dim_scoring_parameters"):
            ids = connection.execute(f"select distinct parameter_set_id from ciris.{mart}").fetchall()
            assert ids == [(new[1],)]
    after = marts(published)
    assert after["ciris.fct_capacity_scores"] != published_marts["ciris.fct_capacity_scores"]
    assert after["ciris.fct_factor_components"] == published_marts["ciris.fct_factor_components"]


# --- accepted input --------------------------------------------------------------------------------------------------


def ranges(connection: psycopg.Connection, *names: str) -> dict[str, tuple[float, float]]:
    """Return minimum and maximum of components over all scores."""
    rows = connection.execute(
        "select component, min(component_value), max(component_value) from ciris.fct_factor_components"
        " where component = any(%s) group by 1",
        [list(names)],
    )
    return {name: (least, most) for name, least, most in rows}


def test_without_components_deferrals_and_keys_the_scores_are_those_of_the_semantics(unscored):
    with unscored.connect() as connection:
        drops = ", ".join(f"drop column {component}" for component in COMPONENTS)
        connection.execute(f"alter table cirislens.covenant_traces {drops}")
        connection.execute("truncate cirislens.wbd_deferrals, cirislens.covenant_public_keys")
        message = refusal(run(unscored))
        assert f"has no column {', '.join(COMPONENTS)}." in message
        assert "or the scoring parameter replay_enabled to false" in message

        result = run(unscored, variables={"ciris_scoring_parameters": {"replay_enabled": False}})
        assert result.exit_code == 0, result.output
        assert "Fleet at 2026-06-15T00:00:00Z" in result.stdout
        assert "Note: cirislens.wbd_deferrals holds no deferral, so the quality of deferrals" in result.stderr
        assert "Note: cirislens.covenant_public_keys holds no key, so no signature" in result.stderr
        assert connection.execute(
            "select count(*) > 0, bool_and('i_replay' = any(unmeasured_components)), max(i_int_score)"
            " from ciris.fct_capacity_scores"
        ).fetchone() == (True, True, 0)
        found = ranges(
            connection, "i_replay", "n_replayed", "q_deferral", "n_judged_deferrals", "key_rate", "i_chain"
        )
        assert found == {
            **{"i_replay": (1, 1), "n_replayed": (0, 0), "q_deferral": (1, 1), "n_judged_deferrals": (0, 0)},
            **{"key_rate": (0, 0), "i_chain": (0, 0)},
        }
        assert connection.execute(
            "select count(*) > 0, bool_or(is_replay_sampled), count(is_replayable),"
            " count(failed_comparisons) from ciris.fct_trace_checks"
        ).fetchone() == (True, False, 0, 0)


def test_without_traces_the_marts_are_empty(unscored):
    with unscored.connect() as connection:
        connection.execute("truncate cirislens.covenant_traces")
    result = run(unscored)
    assert result.exit_code == 0, result.output
    assert "the fleet table is empty" in result.stdout
    assert "Note: cirislens.covenant_traces holds no trace before 2026-06-15T00:00:00Z" in result.stderr
    with unscored.connect() as connection:
        for mart in marts(unscored):
            [[n]] = connection.execute(f"select count(*) from {mart}").fetchall()
            of_the_fleet = not mart.startswith(
                ("ciris.dim_scoring_", "ciris.dim_capacity_", "ciris.dim_days")
            )
            assert (n == 0) == of_the_fleet or mart == "ciris.fct_data_quality", mart
        # The only issues are those of deferrals and batches, because there are no traces.
        issues = (
            "select distinct issue from ciris.fct_data_quality where issue not like 'ingestion%' order by 1"
        )
        assert [issue for [issue] in connection.execute(issues)] == [
            "unattributed_deferral",
            "unknown_status",
        ]
