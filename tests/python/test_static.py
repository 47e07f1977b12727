"""Tests that a daily run skips the static nodes of dbt, and that it builds them again after certain changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import Result
from dbt.cli.main import dbtRunner

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.project import load_project
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.job.static import digest_to_skip_by, state_digest
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.project_files import copy_project
from conftest import REPOSITORY, Database
from pipeline import kept_parsed
from test_bad_input import built, marts, restore, run, saved
from test_gate import BEFORE, NEWEST, RUN_TIMES
from test_source_changes import FOREIGN_CHILD

SCORED_UNTIL = BEFORE
INTERMEDIATE = f"{SCHEMA}_intermediate"
SKIPPED = {
    *["scoring_windows", "capacity_categories", "deferral_outcomes", "components", "permissions"],
    *["int_scoring_parameters", "dim_scoring_parameters", "dim_scoring_windows", "dim_capacity_categories"],
    "dim_days",
    *["stg_cirislens__trace_events", "stg_cirislens__event_traces"],
    *["stg_cirislens__covenant_traces", "stg_cirislens__covenant_trace_batches"],
    *["stg_cirislens__covenant_public_keys", "stg_cirislens__wbd_deferrals"],
    *["int_agent_names", "int_core_identity", "int_integrity", "int_resilience"],
    *["int_incompleteness_awareness", "int_sustained_coherence"],
    *["fct_trace_checks", "fct_factor_components", "fct_score_attribution", "fct_score_comparisons"],
    *["fct_score_changes", "capacity_overview", "fct_scoring_runs", "fct_deferral_values"],
}
"""Static nodes, which a second run skips."""


@pytest.fixture(scope="module")
def state(small_fleet: Database) -> Iterator[str]:
    """Name of a copy of small_fleet, made after a run. A run in the copy would have the copy's name in its digest."""
    assert run(small_fleet, as_of=BEFORE).exit_code == 0
    with saved(small_fleet) as state:
        yield state


@pytest.fixture
def database(small_fleet: Database, state: str) -> Database:
    """The small fleet, scored up to the day before its last day."""
    restore(small_fleet, state)
    return small_fleet


@pytest.fixture
def build(database: Database) -> Iterator[DbtBuild]:
    with kept_parsed(database.profiles_dir):
        yield DbtBuild(load_project(REPOSITORY, database.profiles_dir))


def executed(result: Result) -> set[str]:
    """Return the nodes that a run built or tested."""
    assert result.exit_code == 0, result.output
    return {found[1] for found in re.finditer(r"^ +\d+ of \d+ .* s  .*?(\w+)$", result.stderr, re.MULTILINE)}


def skips(connection: psycopg.Connection, build: DbtBuild) -> bool:
    """Return whether a run would skip the static nodes."""
    return digest_to_skip_by(connection, build, RunRecord("run")) is not None


def test_a_second_run_skips_static_nodes_and_publishes_the_same_rows(database):
    """A third run, which has no digest to compare with, builds all nodes and publishes the same rows."""
    before = {row[:2]: row for row in built(database)}
    nodes = executed(run(database, as_of=NEWEST))
    published = marts(database, without=RUN_TIMES)
    after = {row[:2]: row for row in built(database)}
    changed = {name for schema, name in before if after[schema, name] != before[schema, name]}
    assert not SKIPPED & (changed | nodes)
    with database.connect() as connection:
        connection.execute(f"update {INTERMEDIATE}.int_runs set state_digest = null")
    assert nodes < executed(run(database, as_of=NEWEST)) <= nodes | SKIPPED
    assert marts(database, without=RUN_TIMES) == published


CHANGES = {
    "a view that was dropped": f"drop view {SCHEMA}.fct_score_changes",
    "a view with another definition": f"""
        create or replace view {SCHEMA}.fct_scoring_runs as
        select * from (table {SCHEMA}.fct_scoring_runs) as runs where false""",
    "a table that was renamed below a view": f"""
        alter table {INTERMEDIATE}.int_windows rename to elsewhere;
        create table {INTERMEDIATE}.int_windows (like {INTERMEDIATE}.elsewhere including all)""",
    "a column of the log of runs": f"alter table {INTERMEDIATE}.int_runs drop column remedy cascade",
    "a right": f"grant select on {SCHEMA}.fct_score_changes to public",
    "another column of a source": "alter table cirislens.covenant_traces add column further text",
    "another type of a source's column": """
        alter table cirislens.covenant_trace_batches rename to elsewhere;
        create table cirislens.covenant_trace_batches (like cirislens.elsewhere);
        alter table cirislens.covenant_trace_batches alter batch_id type text""",
    "a run that died": f"update {INTERMEDIATE}.int_runs set outcome = null",
    "a publication of plain dbt": f"""
        insert into {INTERMEDIATE}.int_runs (run_id, started_at, command, outcome, published_at)
        values (gen_random_uuid(), now(), 'dbt', 'published', now())""",
    "a run that was refused, which may have written parameters": f"""
        insert into {INTERMEDIATE}.int_runs (run_id, started_at, command, outcome)
        values (gen_random_uuid(), now(), 'run', 'refused')""",
    "a run that was refused, after a correction of the clock": f"""
        insert into {INTERMEDIATE}.int_runs (run_id, started_at, command, outcome)
        values (gen_random_uuid(), now() - interval '1 day', 'run', 'refused')""",
    "a foreign child of a source": FOREIGN_CHILD,
    "no log": f"drop table {INTERMEDIATE}.int_runs cascade",
}


def test_run_builds_all_nodes_after_a_change_in_the_database(build):
    with connect(build.project) as connection:
        assert skips(connection, build)
        for name, change in CHANGES.items():
            with connection.transaction(force_rollback=True):
                connection.execute(change)
                assert not skips(connection, build), name
        assert skips(connection, build)


@pytest.mark.slow
def test_run_builds_all_nodes_after_a_change_of_code_or_variables(database, tmp_path, monkeypatch):
    """A variable, the readers of the marts, a macro and the seeds are changed, one after the other. The new rows of the
    seeds are wrong, and dbt must refuse them.
    """
    folder = tmp_path / "project"
    copy_project(REPOSITORY, folder)
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))

    def digest(**variables: object) -> str:
        project = load_project(folder, database.profiles_dir, cli_vars=variables)
        with connect(project) as connection:
            return state_digest(connection, DbtBuild(project))

    def append(path: str, line: str) -> None:
        with (folder / path).open("a") as file:
            file.write(f"{line}\n")

    found = [digest()]
    assert digest(ciris_as_of=NEWEST, ciris_allow_rescoring=True) == found[0]
    found.append(digest(ciris_lookback_periods=5))
    with monkeypatch.context() as patched:
        patched.setenv("CIRIS_MART_READERS", "bi")
        found.append(digest())
    append("macros/formulas/components.sql", "{# changed #}")
    found.append(digest())
    wrong = {
        "scoring_windows": ("0,30,30", "scoring_windows_window_days_check"),
        "capacity_categories": (",None,None,,", 'null value in column "category"'),
        "deferral_outcomes": ("EXPIRED,true,NaN", "deferral_outcomes_correctness_check"),
        "components": ("a,C,,lower,,false,false,,,", 'null value in column "has_interval"'),
    }
    for seed, (row, _) in wrong.items():
        append(f"seeds/{seed}.csv", row)
    found.append(digest())
    assert len(set(found)) == len(found)
    options = ["--project-dir", str(folder), "--profiles-dir", str(database.profiles_dir)]
    built = dbtRunner().invoke(["seed", *options, "--quiet"])
    messages = {result.node.name: result.message for result in built.result}
    assert not built.success
    for seed, (_, expected) in wrong.items():
        assert expected in messages[seed]
