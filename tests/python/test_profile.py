"""Tests of reading project and profile without dbt: the result equals dbt's result, or the reader raises NeedsDbt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context

from ciris_scoring.basics import project as projects
from ciris_scoring.basics.dbt import parse
from ciris_scoring.basics.profile import NeedsDbt, rendered
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.relations import relations_of, relations_of_files
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.options import Place
from ciris_scoring.project_files import copy_project
from conftest import REPOSITORY, Database

ENVIRONMENT = {"HOST": "db", "PORT": "6432", "DBT_ENV_SECRET_A": "a{{b", "EMPTY": ""}
OUTPUT = {
    **{"type": "postgres", "host": "{{ env_var('HOST') }}", "port": "{{ env_var('PORT') | as_number }}"},
    **{"user": "u", "pass": "{{ env_var('DBT_ENV_SECRET_A') }}", "dbname": "d", "schema": "s", "threads": 4},
}

OUTCOME = SimpleNamespace(exception=None, success=True, result=None)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    set_invocation_context(dict(ENVIRONMENT))


RENDERED = [
    *("plain", 5, None, "", "a # b", '{{env_var( "PORT" )}}', "{{ env_var('EMPTY') }}"),
    *("{{ env_var('NONE', '5432') }}", "{{ env_var('DBT_ENV_SECRET_A') }}"),
    *("{{ env_var('PORT') | as_number }}", "{{ env_var('PORT') | int }}"),
]
LEFT_TO_DBT = [
    *("{{ env_var('NONE') }}", "{{ var('other') }}", "{{ open", "{# note #}b", "x-{{ env_var('HOST') }}"),
    *("{{ env_var('HOST') | as_number }}", "{{ env_var('HOST') | as_bool }}", "{{ env_var('HOST') + 'a' }}"),
    "{{ env_var('NONE', 'a\\nb') }}",
]


@pytest.mark.parametrize("template", RENDERED)
def test_template_is_rendered_as_by_dbt(template):
    expected, found = ProfileRenderer({}).render_value(template), rendered(template)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("template", LEFT_TO_DBT)
def test_template_that_needs_dbt_is_not_rendered_without_dbt(template):
    with pytest.raises(NeedsDbt):
        rendered(template)


@pytest.mark.parametrize(
    ("changed", "is_left_to_dbt"),
    [
        ({}, False),
        ({"role": "r", "sslmode": "require", "keepalives_idle": 5, "retries": 2}, False),
        *(({"port": port}, True) for port in (70_000, "5432")),
        *((wrong, True) for wrong in ({"user": 5}, {"host": None}, {"threads": "many"}, {"type": "oracle"})),
        ({"password": "given as pass and as password"}, True),
    ],
    ids=str,
)
def test_profile_is_read_as_by_dbt_or_left_to_dbt(tmp_path, changed, is_left_to_dbt):
    outputs = {"dev": OUTPUT | changed, "other": {"type": "{{ broken"}}
    profile = {"ciris_scoring": {"target": "{{ env_var('WHICH', 'dev') }}", "outputs": outputs}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile))
    arguments = (REPOSITORY, tmp_path, None, None)
    if is_left_to_dbt:
        with pytest.raises(NeedsDbt):
            projects._read(*arguments)
    else:
        assert projects._read(*arguments) == projects._read_by_dbt(*arguments, {})


def test_environment_names_project_profile_and_target_as_in_dbt(tmp_path, monkeypatch):
    """Options take precedence. DBT_ENGINE_X takes precedence over DBT_X, and an empty variable is not set."""
    outputs = {name: OUTPUT | {"schema": name} for name in ("dev", "prod", "new")}
    profiles = {name: {"target": "dev", "outputs": outputs} for name in ("ciris_scoring", "mine", "embedded")}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profiles))
    monkeypatch.chdir(tmp_path)
    variables = {"PROJECT_DIR": str(REPOSITORY), "PROFILE": "mine", "TARGET": "prod"}
    for name, value in variables.items():
        monkeypatch.setenv(f"DBT_{name}", value)
    found = load_project()
    assert (found.project_dir, found.profile_name, found.schema) == (REPOSITORY, "mine", "prod")
    assert (load_project(target="dev").schema, load_project(profile="embedded").profile_name) == (
        "dev",
        "embedded",
    )
    monkeypatch.setenv("DBT_ENGINE_TARGET", "new")
    monkeypatch.setenv("DBT_PROFILE", "")
    found = load_project()
    assert (found.profile_name, found.target_name) == ("ciris_scoring", "new")
    given = set()
    with monkeypatch.context() as patch:
        patch.setattr("dbt.cli.main.dbtRunner.invoke", lambda self, words: given.update(words) or OUTCOME)
        parse(found)
    assert {"--profile", "ciris_scoring", "--target", "new"} <= given


def test_embedded_server_ignores_target_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("DBT_TARGET", "prod")
    monkeypatch.setenv("DBT_PROFILE", "mine")
    monkeypatch.setattr(embedded, "start", lambda folder: embedded.Server("/nowhere", 5432, "postgres", tmp_path))
    folder = tmp_path / "project"
    copy_project(REPOSITORY, folder)
    (folder / ".ciris").mkdir()
    project = Place(None, None, folder, None, True).project()
    assert (project.profile_name, project.target_name) == ("ciris_scoring", "dev")


def test_relations_read_from_files_equal_those_of_dbt(database: Database, tmp_path: Path):
    """Only dbt can evaluate a macro that names models."""
    folder = tmp_path / "project"
    copy_project(REPOSITORY, folder)
    file = folder / "dbt_project.yml"
    text = file.read_text().replace("    marts:\n", "    marts:\n      dim_agents: {+alias: agents, +schema: null}\n")
    file.write_text(text.replace("+schema: intermediate", "+schema: middle"))
    project = load_project(folder, database.profiles_dir)
    expected = relations_of(parse(project), project.schema)
    found = relations_of_files(folder, project.schema)
    assert dict(found.places) == dict(expected.places)
    assert found.places["dim_agents"].identifier == "agents"
    assert found.places["int_runs"].schema == f"{SCHEMA}_middle"
    (folder / "macros/names.sql").write_text("{% macro generate_alias_name(a, b) %}x{% endmacro %}")
    with pytest.raises(NeedsDbt):
        relations_of_files(folder, project.schema)


@pytest.mark.parametrize("command", ["explain Link", "report --output -", "fleet", "alerts --json"])
def test_command_starts_without_importing_dbt(scored_sample: Database, command):
    """A verdict for another threshold than the published one needs numpy, which takes a tenth of a second."""
    program = (
        "import sys; from ciris_scoring.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "heavy = {'dbt', 'dbt_common', 'pandas', 'psycopg2', 'fastapi'} & sys.modules.keys();"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    place = ["--profiles-dir", scored_sample.profiles_dir, "--project-dir", REPOSITORY]
    done = subprocess.run(
        [sys.executable, "-c", program, *command.split(), *map(str, place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
