"""Tests of the plugin that runs Python models in dbt's process (python/dbt_postgres_python.py). Every dbt of its
environment imports it, so it must not affect other projects. Missing plugins and failing models are tested, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pytest
from dbt.adapters.postgres import PostgresAdapter

from ciris_scoring.lab.embedded import SCHEMA
from command_line import at, printed
from conftest import REPOSITORY, Database
from pipeline import RUN_TIMES
from test_bad_input import NEWEST, built, dbt, marts, restore, run, saved

DBT = """
import sys
from importlib.util import find_spec
plugin, *arguments = sys.argv[1:]
if plugin == "without":
    sys.path.remove({package!r})
assert (find_spec("dbt_postgres_python") is None) == (plugin == "without"), sys.path
sys.argv[1:] = arguments
from dbt.cli.main import cli
cli()
""".format(package=str(REPOSITORY / "python"))
"""Program that runs dbt with or without the package."""


def dbt_in_process(plugin: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", DBT, plugin, *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def fleet(small_fleet: Database) -> Iterator[tuple[Database, str]]:
    """A small unscored fleet and its saved copy after scoring."""
    with saved(small_fleet) as arrived:
        assert run(small_fleet).exit_code == 0
        with saved(small_fleet) as scored:
            restore(small_fleet, arrived)
            yield small_fleet, scored


# --- environments without the package, or with another version -------------------------------------------------------


def test_without_the_package_a_build_stops_and_changes_nothing(fleet):
    database, scored = fleet
    missing = "The Python package ciris-scoring is missing in the environment that this dbt runs in"
    command = ("build", *at(database), "--target-path", str(database.profiles_dir / "target"))

    first = dbt_in_process("without", *command)
    assert first.returncode != 0 and missing in " ".join(first.stdout.split()), first.stdout
    assert "in a checkout of the repository at version" in " ".join(first.stdout.split())
    # Not even the run log is created, because its table cannot be checked without the package.
    assert built(database) == []

    restore(database, scored)
    before, published = built(database), marts(database)
    again = dbt_in_process("without", *command)
    assert again.returncode != 0 and missing in " ".join(again.stdout.split()), again.stdout
    assert (built(database), marts(database)) == (before, published)


def test_another_version_of_the_package_is_refused(fleet, monkeypatch):
    database, scored = fleet
    restore(database, scored)
    before, published = built(database), marts(database)
    monkeypatch.setattr(PostgresAdapter, "ciris_scoring_version", lambda _: "0.0.1")
    refused = dbt(database, "build", variables={"ciris_as_of": NEWEST})
    assert not refused.succeeded
    assert "the Python package in the environment that this dbt runs in is 0.0.1" in refused.said
    assert (built(database), marts(database)) == (before, published)


# --- other projects --------------------------------------------------------------------------------------------------

IMPORTED = """
import json, sys
import dbt.adapters.postgres
before = set(sys.modules)
import dbt_postgres_python
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_the_plugin_imports_nothing_but_dbt():
    assert json.loads(printed(sys.executable, "-c", IMPORTED)) == ["dbt_postgres_python"]


def write_project(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write another project and return the options that select it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content))
    return ["--project-dir", str(folder), "--profiles-dir", str(folder), "--no-use-colors"]


PROJECT = "{name: other, profile: other, flags: {send_anonymous_usage_stats: false}}"
PYTHON_MODEL = """
    def model(dbt, session):
        dbt.config(materialized="table")
        return session.sql("select 6 * 7 as answer")
    """


def test_project_without_python_models_is_built_as_without_the_plugin(database, tmp_path):
    options = write_project(
        tmp_path,
        {
            "dbt_project.yml": PROJECT,
            "models/some_table.sql": "{{ config(materialized='table') }} select 1 as id",
            "models/some_view.sql": "select id from {{ ref('some_table') }}",
            "models/some_increment.sql": """
                {{ config(materialized='incremental', unique_key='id') }}
                select id from {{ ref('some_view') }}
                """,
            "snapshots/some_snapshot.sql": """
                {% snapshot some_snapshot %}
                {{ config(schema='kept', unique_key='id', strategy='check', check_cols='all') }}
                select id from {{ ref('some_view') }}
                {% endsnapshot %}
                """,
            "seeds/some_seed.csv": "id\n1\n",
            "models/some.yml": "{models: [{name: some_view, columns: [{name: id, data_tests: [not_null]}]}]}",
        },
    )
    profile = (database.profiles_dir / "profiles.yml").read_text()
    (tmp_path / "profiles.yml").write_text(profile.replace("ciris_scoring:", "other:"))

    def outcome(plugin: str) -> tuple[dict, dict]:
        target = tmp_path / plugin
        with database.connect() as connection:
            connection.execute(
                "drop schema if exists ciris cascade; drop schema if exists ciris_kept cascade"
            )
        for _ in range(2):  # the second run is incremental
            done = dbt_in_process(plugin, "build", *options, "--target-path", str(target))
            assert done.returncode == 0, done.stdout
        results = json.loads((target / "run_results.json").read_text())["results"]
        sent = {
            path.name: re.sub(r"__dbt_tmp\d+", "", path.read_text())
            for path in (target / "run").rglob("*.sql")
        }
        return {r["unique_id"]: (r["status"], r["adapter_response"]) for r in results}, sent

    plain, with_plugin = outcome("without"), outcome("with")
    assert with_plugin == plain
    assert len(plain[0]) == 6 and len(plain[1]) >= 4


def test_python_models_of_another_adapter_work_beside_it(tmp_path):
    output = {"type": "duckdb", "path": str(tmp_path / "a.duckdb")}
    options = write_project(
        tmp_path,
        {
            "dbt_project.yml": PROJECT,
            "profiles.yml": json.dumps({"other": {"target": "dev", "outputs": {"dev": output}}}),
            "models/answers.py": PYTHON_MODEL,
            "models/asked.sql": "select answer from {{ ref('answers') }}",
        },
    )
    done = dbt_in_process("with", "build", *options, "--target-path", str(tmp_path / "target"))
    assert done.returncode == 0, done.stdout
    with duckdb.connect(output["path"], read_only=True) as connection:
        assert connection.execute("select answer from asked").fetchall() == [(42,)]


# --- failing models --------------------------------------------------------------------------------------------------


def test_a_model_that_fails_is_named_and_rolled_back_and_retry_goes_on(fleet, monkeypatch):
    """The model raises an unexpected exception. test_windows.py tests input that the model refuses."""
    database, scored = fleet
    restore(database, scored)
    variables = {"ciris_as_of": NEWEST}
    with database.connect() as connection:
        # Delete rows so that the model has to compute some.
        connection.execute(f"delete from {SCHEMA}_intermediate.int_windows where as_of = %s", [NEWEST])
    expected = marts(database, without=RUN_TIMES)
    before = marts(database)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("ciris_scoring.statistics.one_pass.finish_block", fail)
        failed = dbt(database, "build", variables=variables)
    assert not failed.succeeded
    assert "int_windows" in failed.said and "a bug" in failed.said
    assert marts(database) == before
    with database.connect() as connection:
        left = f"select count(*) from {SCHEMA}_intermediate.int_windows where as_of = %s"
        assert connection.execute(left, [NEWEST]).fetchone() == (0,)
    retried = dbt(database, "retry")
    assert retried.succeeded, retried.said
    assert marts(database, without=RUN_TIMES) == expected


def test_dbt_shows_the_scores(fleet):
    database, scored = fleet
    restore(database, scored)
    shown = dbt(database, "show", "--inline", "select * from {{ ref('fct_capacity_scores') }}")
    assert shown.succeeded, shown.said
