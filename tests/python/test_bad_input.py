"""What must stop a run, and what must not: the table "Bad input" of issue 2, through the command line and plain dbt.

Every refusal is one error and one hint that name the thing, its value and the remedy, exits with another code than 0,
and leaves what is published as it was, to the last bit. A database that is down or refuses us, and `simulate` into a
table that holds traces, are in test_cli.py; bad values in the rows themselves in test_equals_brute_force.py; failures
in the middle of a run in test_gate.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from conftest import REPOSITORY, Database, _fresh_database
from pipeline import score
from psycopg import sql

from ciris_scoring.cli import main
from ciris_scoring.connection import run_lock
from ciris_scoring.embedded import SCHEMA, Server
from ciris_scoring.simulate import load_sample, sample_info
from ciris_scoring.source_schema import create_source_tables

NEWEST = sample_info()["as_of"]
OLDER = "2026-06-14"
COMPONENTS = ["thought_start", "dma_results", "conscience_result", "action_result"]


# --- databases, shared with the other tests of whole runs -------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def artifacts_of_dbt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what dbt writes out of the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_TARGET_PATH", str(tmp_path_factory.mktemp("target")))
        patch.setenv("DBT_LOG_PATH", str(tmp_path_factory.mktemp("logs")))
        patch.delenv("DBT_PROFILES_DIR", raising=False)
        yield


@contextmanager
def sample_database(server: Server, folder: Path) -> Iterator[Database]:
    """A database that holds the sample, not scored yet."""
    with contextmanager(_fresh_database)(server, folder) as database:
        with database.connect() as connection:
            load_sample(connection)
        yield database


@contextmanager
def copy_of(template: Database, folder: Path) -> Iterator[Database]:
    """A database that is in the state of another one, which nobody is connected to."""
    with contextmanager(_fresh_database)(template.server, folder) as database:
        with psycopg.connect(template.server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"drop database {database.name}")
            connection.execute(f"create database {database.name} template {template.name} strategy file_copy")
        yield database


def fingerprints(connection: psycopg.Connection, *schemas: str, kinds: str = "rv", without: tuple[str, ...] = ()) -> dict[str, str]:
    """Of every relation in some schemas, the md5 of its rows; columns named in ``without`` do not count."""
    relations = connection.execute(
        """
        select n.nspname, c.relname, array_agg(a.attname order by a.attnum)
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> all(%s)
        where n.nspname = any(%s) and c.relkind::text = any(%s)
        group by 1, 2
        """,
        [list(without), list(schemas), list(kinds)],
    ).fetchall()
    assert relations
    found = {}
    for schema, name, columns in relations:
        query = sql.SQL("""select md5(coalesce(string_agg(r::text, E'\n' order by r::text collate "C"), '')) from (select {} from {}) as r""")
        [[found[f"{schema}.{name}"]]] = connection.execute(
            query.format(sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(schema, name))
        ).fetchall()
    return found


def marts(database: Database, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Fingerprint of every mart, tables and views."""
    with database.connect() as connection:
        return fingerprints(connection, SCHEMA, without=without)


def built(database: Database) -> list[tuple]:
    """Which relations dbt has made, by their identity and that of their file: building any of them again changes it."""
    with database.connect() as connection:
        return connection.execute(
            """
            select n.nspname, c.relname, c.oid, c.relfilenode
            from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname like 'ciris%' and n.nspname <> 'cirislens'
            order by 1, 2
            """
        ).fetchall()


@pytest.fixture(scope="module")
def template(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The sample, scored and published."""
    with sample_database(embedded_postgres, tmp_path_factory.mktemp("template")) as database:
        score(database.profiles_dir, NEWEST)
        yield database


@pytest.fixture(scope="module")
def published_marts(template: Database) -> dict[str, str]:
    return marts(template)


@pytest.fixture
def published(template: Database, tmp_path: Path) -> Iterator[Database]:
    """A copy of the published sample, to spoil."""
    with copy_of(template, tmp_path) as database:
        yield database


# --- the two ways to run ----------------------------------------------------------------------------------------------


def run(database: Database, *arguments: str, variables: Any = None, as_of: str | None = NEWEST, command: str = "run") -> Result:
    """`ciris-scoring run`, or another command; a traceback would be a bug."""
    options = ["--profiles-dir", str(database.profiles_dir), "--project-dir", str(REPOSITORY), *arguments]
    if as_of is not None:
        options += ["--as-of", as_of]
    if variables is not None:
        options += ["--vars", variables if isinstance(variables, str) else json.dumps(variables)]
    result = CliRunner().invoke(main, [command, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), f"a traceback: {result.exception!r}"
    assert "Traceback" not in result.output
    return result


def refusal(result: Result) -> str:
    """Error and hint, one line each, of a command that failed and printed no result."""
    assert result.exit_code != 0, result.output
    assert result.stdout == ""
    *_, error, hint = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert hint.startswith("Hint: ")
    return f"{error}\n{hint}"


@dataclass
class Dbt:
    """How a plain dbt command ended: its exit code would be 0 or not, and what it said in errors and warnings."""

    succeeded: bool
    said: str


def dbt(database: Database, *command: str, variables: Any = None) -> Dbt:
    """Plain dbt, in this process, without unit tests."""
    from dbt.cli.main import dbtRunner

    said: list[str] = []

    def listen(event: Any) -> None:
        if event.info.level in ("warn", "error"):
            said.append(event.info.msg)

    options = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(database.profiles_dir), "--log-level", "none", "--quiet"]
    if command[0] == "build":
        options += ["--exclude-resource-type", "unit_test"]
    if variables is not None:
        options += ["--vars", variables if isinstance(variables, str) else json.dumps(variables)]
    outcome = dbtRunner(callbacks=[listen]).invoke([*command, *options])
    text = "\n".join([*said, str(outcome.exception or "")])
    assert "Traceback" not in text
    return Dbt(outcome.success, text)


# --- what stops before anything is built ------------------------------------------------------------------------------


@dataclass
class Case:
    """Something wrong, and what the message must hold. `change` is done to the database first."""

    name: str
    expected: list[str]
    variables: Any = None
    change: str = "select"
    arguments: list[str] = field(default_factory=list)
    as_of: str | None = NEWEST


def missing_table(table: str) -> Case:
    expected = [f"cirislens.{table} is missing", f"source_schema and {table}_table"]
    return Case(f"no {table}", expected, change=f"alter table cirislens.{table} rename to elsewhere")


def missing_column(table: str, column: str, *further: str) -> Case:
    expected = [f"cirislens.{table} has no column {column}", f"the variable {table}_table", *further]
    return Case(f"no {column}", expected, change=f'alter table cirislens.{table} drop column "{column}" cascade')


def bad_parameter(name: str, value: Any, allowed: str, shown: str | None = None) -> Case:
    expected = [f"Scoring parameter {name} is {value if shown is None else shown}, but must be", allowed, "the variable scoring_parameters"]
    return Case(f"{name} = {value}", expected, {"scoring_parameters": {name: value}})


SOURCES = [
    missing_table("covenant_traces"),
    missing_table("wbd_deferrals"),
    missing_table("covenant_public_keys"),
    missing_table("covenant_trace_batches"),
    missing_column("covenant_traces", "agent_name"),
    missing_column("covenant_traces", "timestamp"),
    missing_column("wbd_deferrals", "resolved_at"),
    missing_column("covenant_public_keys", "revoked_at"),
    missing_column("covenant_trace_batches", "traces_received"),
    missing_column("covenant_traces", "conscience_result", "replay_enabled to false"),
    Case(
        "no schema",
        ["nowhere.covenant_traces is missing", "source_schema and covenant_traces_table"],
        {"source_schema": "nowhere"},
    ),
]
PARAMETERS = [
    bad_parameter("lambda_c", 1.9, "number in [2, 10]"),
    bad_parameter("decay_per_day", 0.11, "number in [0.02, 0.1]"),
    bad_parameter("mu_c", "five", "number in [5, 20]"),
    bad_parameter("lambda_c", float("nan"), "number in [2, 10]", "NaN"),
    bad_parameter("min_traces", 2.5, "whole number in [1, 1000000]"),
    bad_parameter("require_registered_keys", 1, "true or false"),
    bad_parameter("replay_sample_salt", 7, "any text"),
    Case("unknown name", ["'lamda_c'", "value 5", "Known are:", "lambda_c"], {"scoring_parameters": {"lamda_c": 5}}),
    Case(
        "weights",
        ["weight_c, weight_i_int, weight_r, weight_i_inc, weight_s sum to 1.1", "must sum to 1", "scoring_parameters"],
        {"scoring_parameters": {"weight_c": 0.3}},
    ),
    Case("parameters are text", ["scoring_parameters is text", "must be a dictionary"], {"scoring_parameters": "text"}),
    Case("parameters are a list", ["scoring_parameters is ['mu_c']", "must be a dictionary"], {"scoring_parameters": ["mu_c"]}),
    Case("parameters are 0", ["scoring_parameters is 0", "must be a dictionary"], {"scoring_parameters": 0}),
]
VARIABLES = [
    Case("scoring_period", ["scoring_period is 'week'", "day", "hour"], {"scoring_period": "week"}),
    Case("lookback below 0", ["lookback_periods is -1", "whole number of 0 or more"], {"lookback_periods": -1}),
    Case("lookback in words", ["lookback_periods is three", "whole number of 0 or more"], {"lookback_periods": "three"}),
    Case("lookback in parts", ["lookback_periods is 2.5", "whole number of 0 or more"], {"lookback_periods": 2.5}),
    Case("late detection in words", ["late_detection_periods is many"], {"late_detection_periods": "many"}),
    Case("late detection below 0", ["late_detection_periods is -1"], {"late_detection_periods": -1}),
]
AS_OFS = [
    Case("malformed", ["--as-of is 'last week'", "ISO 8601"], as_of="last week"),
    Case("impossible", ["--as-of is '2026-02-30'", "ISO 8601"], as_of="2026-02-30"),
    Case("future", ["--as-of is '2999-01-01', which is in the future"], as_of="2999-01-01"),
    Case("malformed variable", ["variable as_of is 'soon'", "ISO 8601"], {"as_of": "soon"}, as_of=None),
    Case("impossible variable", ["as_of", "2026-02-30"], "{as_of: 2026-02-30}", as_of=None),
    Case("future variable", ["variable as_of is '2999-01-01', which is in the future"], {"as_of": "2999-01-01"}, as_of=None),
    Case("older than the newest", ["2026-06-14", "precedes the newest published one, 2026-06-15", "Leave as_of out"], as_of=OLDER),
]
FULL_REFRESH = [
    Case("full refresh", ["schema ciris", "int_trace_verdicts", "--allow-rescoring", "leave --full-refresh out"], arguments=["--full-refresh"]),
]


@pytest.mark.parametrize("case", [*SOURCES, *PARAMETERS, *VARIABLES, *AS_OFS, *FULL_REFRESH], ids=lambda case: case.name)
def test_a_run_stops_before_building(published, published_marts, case):
    with published.connect() as connection:
        connection.execute(case.change)
    before = built(published)
    message = refusal(run(published, *case.arguments, variables=case.variables, as_of=case.as_of))
    assert [text for text in case.expected if text not in message] == [], message
    assert built(published) == before
    assert marts(published) == published_marts


DBT_AS_OFS = [
    Case("malformed", ["as_of is 'soon'", "ISO 8601"], {"as_of": "soon"}),
    Case("impossible", ["as_of is '2026-02-30'", "ISO 8601"], {"as_of": "2026-02-30"}),
    Case("impossible hour", ["as_of is '2026-06-15T25:00'", "ISO 8601"], {"as_of": "2026-06-15T25:00"}),
    Case("future", ["as_of is 2999-01-01", "in the future"], {"as_of": "2999-01-01"}),
    Case("older than the newest", ["2026-06-14", "precedes the newest published one, 2026-06-15", "Leave as_of out"], {"as_of": OLDER}),
]
DBT_FULL_REFRESH = [
    Case("full refresh", ["schema ciris", "int_trace_verdicts", "allow_rescoring: true"], arguments=["--full-refresh"]),
    Case(
        "full refresh of one model",
        ["would rebuild int_window_sums)", "allow_rescoring: true"],
        arguments=["--full-refresh", "--select", "int_window_sums"],
    ),
    Case(
        "full refresh of one mart",
        ["would rebuild fct_fleet_capacity)", "allow_rescoring: true"],
        arguments=["--full-refresh", "--select", "fct_fleet_capacity"],
    ),
]
DBT_OTHERS = [SOURCES[0], SOURCES[4], SOURCES[9], PARAMETERS[0], PARAMETERS[7], PARAMETERS[8], *VARIABLES[:2]]


@pytest.mark.parametrize("case", [*DBT_OTHERS, *DBT_AS_OFS, *DBT_FULL_REFRESH], ids=lambda case: case.name)
def test_plain_dbt_stops_before_building(published, published_marts, case):
    with published.connect() as connection:
        connection.execute(case.change)
    before = built(published)
    variables = {"as_of": NEWEST, **(case.variables or {})}
    outcome = dbt(published, "build", *case.arguments, variables=variables)
    assert not outcome.succeeded
    assert [text for text in case.expected if text not in outcome.said] == [], outcome.said
    assert built(published) == before
    assert marts(published) == published_marts


def test_plain_dbt_refuses_while_a_run_holds_the_lock(published, published_marts):
    command = [sys.executable, "-m", "dbt.cli.main", "--no-use-colors", "build", "--project-dir", REPOSITORY, "--profiles-dir", published.profiles_dir]
    before = built(published)
    with published.connect() as other, run_lock(other, SCHEMA) as pid:
        done = subprocess.run(
            [*map(str, command), "--vars", f"as_of: {NEWEST}"], capture_output=True, text=True, check=False
        )
    assert done.returncode != 0
    assert f"Another run holds the lock on schema ciris (database process {pid}). Wait until it has ended." in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert built(published) == before
    assert marts(published) == published_marts


# --- parameters that are not those of what is published ---------------------------------------------------------------

# What describes the run that was tried, and holds nothing that a score is made of.
OF_THE_RUN = {"ciris_intermediate.int_scoring_run", "ciris_intermediate.int_scoring_parameters"}


def tables(database: Database) -> dict[str, str]:
    """Fingerprint of every table but those that describe one run."""
    with database.connect() as connection:
        found = fingerprints(connection, SCHEMA, f"{SCHEMA}_intermediate", kinds="r")
    return {name: value for name, value in found.items() if name not in OF_THE_RUN}


CHANGED = {"scoring_parameters": {"lambda_c": 6}}
CHANGED_EXPECTED = ["parameter_set_id", "schema ciris", "Go back to those", "--full-refresh", "allow_rescoring: true"]


def test_a_changed_parameter_stops_before_anything_changes(published, published_marts):
    before = tables(published)
    message = refusal(run(published, variables=CHANGED))
    assert [text for text in CHANGED_EXPECTED if text not in message] == [], message
    assert "--allow-rescoring" in message
    assert tables(published) == before
    assert marts(published) == published_marts

    outcome = dbt(published, "build", variables={"as_of": NEWEST, **CHANGED})
    assert not outcome.succeeded
    assert [text for text in CHANGED_EXPECTED if text not in outcome.said] == [], outcome.said
    assert tables(published) == before
    assert marts(published) == published_marts


def test_a_changed_parameter_stops_dbt_run_too(published, published_marts):
    """`dbt run` skips tests: what stops a mixture of parameters must not be one of them alone."""
    outcome = dbt(published, "run", variables={"as_of": NEWEST, **CHANGED})
    with published.connect() as connection:
        sets = connection.execute("select distinct parameter_set_id from ciris.fct_capacity_scores").fetchall()
    assert len(sets) == 1, f"published scores made with {len(sets)} parameter sets"
    assert not outcome.succeeded
    assert marts(published) == published_marts


def test_a_refused_run_leaves_no_parameters_behind_for_the_python_step(published, tmp_path):
    """The steps of a scheduler, with a refused run in between: its parameters enter no score."""

    def scores(database: Database) -> dict[tuple, float]:
        with database.connect() as connection:
            rows = connection.execute("select agent_id_hash, as_of, window_days, r_score from ciris.fct_capacity_scores")
            return {row[:3]: row[3] for row in rows}

    expected = scores(published)
    with published.connect() as connection:  # as if the newest as-of had not come to its Python step yet
        connection.execute("delete from ciris_intermediate.int_resilience_scores where as_of = %s", [NEWEST])
    refusal(run(published, variables={"scoring_parameters": {"drift_pseudo_count": 5}}))
    alone = run(published, command="resilience", as_of=None)
    assert alone.exit_code == 0 or "drift_pseudo_count" in refusal(alone)
    assert run(published).exit_code == 0
    found = scores(published)
    wrong = [key for key in expected if abs(found[key] - expected[key]) > 1e-12]
    assert len(wrong) == 0, f"{len(wrong)} published r_scores were made with parameters that were refused"


def test_a_full_refresh_that_is_allowed_is_logged(published, published_marts):
    """And is what the refusal of a changed parameter says it is: the way to other parameters."""
    log = "select is_full_refresh, parameter_set_id, run_as_of, newest_as_of from ciris_intermediate.int_score_publications order by published_at"
    with published.connect() as connection:
        first = connection.execute(log).fetchall()
        assert [row[0] for row in first] == [False]
        result = run(published, "--full-refresh", "--allow-rescoring", variables=CHANGED)
        assert result.exit_code == 0, result.output
        [old, new] = connection.execute(log).fetchall()
        assert old == first[0]
        newest = datetime.fromisoformat(NEWEST).astimezone(UTC)
        assert (new[0], new[2], new[3]) == (True, newest, newest)
        assert new[1] != old[1]
        assert connection.execute("select distinct parameter_set_id from ciris.fct_capacity_scores").fetchall() == [(new[1],)]
        assert connection.execute(
            "select parameter_value, parameter_set_id from ciris.dim_scoring_parameters where parameter_name = 'lambda_c'"
        ).fetchall() == [("6.0", new[1])]
    after = marts(published, without=("scored_at", "latest_scored_at"))
    assert after["ciris.fct_capacity_scores"] != published_marts["ciris.fct_capacity_scores"]
    assert after["ciris.dim_scoring_windows"] == published_marts["ciris.dim_scoring_windows"]


# --- what does not stop a run -----------------------------------------------------------------------------------------


@pytest.fixture
def sample(embedded_postgres: Server, tmp_path: Path) -> Iterator[Database]:
    """The sample, not scored yet."""
    with sample_database(embedded_postgres, tmp_path) as database:
        yield database


def test_without_components_a_run_works_when_replay_is_disabled(sample):
    with sample.connect() as connection:
        drops = ", ".join(f"drop column {component}" for component in COMPONENTS)
        connection.execute(f"alter table cirislens.covenant_traces {drops}")
        message = refusal(run(sample))
        assert f"has no column {', '.join(COMPONENTS)}" in message
        assert "the scoring parameter replay_enabled to false" in message
        result = run(sample, variables={"scoring_parameters": {"replay_enabled": False}})
        assert result.exit_code == 0, result.output
        assert connection.execute(
            "select count(*) > 0, bool_and('i_replay' = any(unmeasured_components)) from ciris.fct_capacity_scores"
        ).fetchone() == (True, True)
        assert connection.execute(
            "select component, min(component_value), max(component_value) from ciris.fct_factor_components"
            " where component in ('i_replay', 'n_replayed') group by 1 order by 1"
        ).fetchall() == [("i_replay", 1, 1), ("n_replayed", 0, 0)]
        assert connection.execute(
            "select count(*) > 0, bool_or(is_replay_sampled), count(is_replayable), sum(cardinality(failed_comparisons)) from ciris.fct_trace_verdicts"
        ).fetchone() == (True, False, 0, 0)


def test_without_deferrals_and_keys_the_scores_are_those_of_the_semantics(sample):
    with sample.connect() as connection:
        connection.execute("truncate cirislens.wbd_deferrals, cirislens.covenant_public_keys")
        result = run(sample)
        assert result.exit_code == 0, result.output
        assert "Note: cirislens.wbd_deferrals holds no deferral, so the quality of deferrals counts as 1." in result.stderr
        assert "Note: cirislens.covenant_public_keys holds no key, so no signature is by a registered key." in result.stderr
        assert "Fleet at 2026-06-15T00:00:00Z" in result.stdout
        assert connection.execute(
            "select component, min(component_value), max(component_value) from ciris.fct_factor_components"
            " where component in ('q_deferral', 'n_judged_deferrals', 'key_rate', 'i_chain') group by 1 order by 1"
        ).fetchall() == [("i_chain", 0, 0), ("key_rate", 0, 0), ("n_judged_deferrals", 0, 0), ("q_deferral", 1, 1)]
        assert connection.execute("select count(*) > 0, min(i_int_score), max(i_int_score), max(capacity_score) from ciris.fct_capacity_scores").fetchone() == (True, 0, 0, 0)


def test_without_traces_the_marts_are_empty(database):
    """Also before: `dbt build` alone, on a fresh database; and after: again, by the command line."""
    with database.connect() as connection:
        create_source_tables(connection)
    assert dbt(database, "build", variables={"as_of": NEWEST}).succeeded
    result = run(database)
    assert result.exit_code == 0, result.output
    assert "Note: cirislens.covenant_traces holds no trace before 2026-06-15T00:00:00Z, so there is nothing to score." in result.stderr
    assert result.stdout == "No agent has a trace in a scoring window at 2026-06-15T00:00:00Z: the fleet table is empty.\n"
    with database.connect() as connection:
        names = [name.removeprefix("ciris.") for name in fingerprints(connection, SCHEMA)]
        counts = {name: connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(SCHEMA, name))).fetchone()[0] for name in names}
    assert {name for name, n in counts.items() if n} == {"dim_scoring_parameters", "dim_scoring_windows", "dim_capacity_categories"}
    assert {name for name in names if name.startswith("fct_")} == {
        "fct_capacity_scores",
        "fct_factor_components",
        "fct_trace_verdicts",
        "fct_capacity_alerts",
        "fct_fleet_capacity",
        "fct_fleet_coherence_hourly",
        "fct_data_quality",
    }
