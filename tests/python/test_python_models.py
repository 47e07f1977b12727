"""Tests of the plugin that runs Python models in dbt's process (python/dbt_postgres_python.py), and of its absence.

Every dbt in the environment imports the plugin, so it must not affect other projects.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from dbt.adapters.postgres import PostgresAdapter

from command_line import PROGRAMS, at, printed
from conftest import REPOSITORY
from test_bad_input import NEWEST, built, dbt, refusal

DBT_ALONE = f"""
import sys
from importlib.util import find_spec
sys.path.remove({str(REPOSITORY / "python")!r})
assert find_spec("dbt_postgres_python") is None, sys.path
from dbt.cli.main import cli
cli()
"""
"""Program that runs dbt without the package."""


# --- environments without the package, or with another version -------------------------------------------------------


@pytest.mark.slow
def test_build_without_the_package_or_with_another_version_changes_nothing(small_fleet, monkeypatch):
    missing = "The Python package ciris-scoring is missing in the environment that this dbt runs in"
    target = str(small_fleet.profiles_dir / "target")
    build = ["build", *at(small_fleet), "--target-path", target]
    done = subprocess.run([sys.executable, "-c", DBT_ALONE, *build], capture_output=True, text=True, check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode != 0 and missing in said, said
    assert "in a checkout of the repository at version" in said
    # Not even the run log is created, because its table cannot be checked without the package.
    assert built(small_fleet) == []

    import dbt_postgres_python  # noqa: F401

    monkeypatch.setattr(PostgresAdapter, "ciris_scoring_version", lambda _: "0.0.1")
    said = refusal(dbt(small_fleet, "build", variables={"ciris_as_of": NEWEST}))
    assert "the Python package in the environment that this dbt runs in is 0.0.1" in said
    assert {name for _, name, *_ in built(small_fleet)} == {"int_runs", "int_runs_pkey"}


# --- other projects --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_another_project_is_built_in_its_own_search_path(database, tmp_path):
    """The project has a table and a view, but no Python model."""
    (tmp_path / "models").mkdir()
    profile = (database.profiles_dir / "profiles.yml").read_text()
    for name, content in {
        "dbt_project.yml": "{name: other, profile: other, flags: {send_anonymous_usage_stats: false}}",
        "profiles.yml": profile.replace("ciris_scoring:", "other:"),
        "models/some_view.sql": "select 1 as id",
        "models/some_table.sql": """
            {{ config(materialized='table') }}
            select id, current_setting('search_path') as found_path from {{ ref('some_view') }}
            """,
    }.items():
        (tmp_path / name).write_text(content)
    options = ["--project-dir", tmp_path, "--profiles-dir", tmp_path, "--target-path", tmp_path / "target"]
    printed(PROGRAMS / "dbt", "build", *options)
    with database.connect() as connection:
        built = connection.execute("select id, found_path from ciris.some_table").fetchall()
    assert built == [(1, '"$user", public')]
