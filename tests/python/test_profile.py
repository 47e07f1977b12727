"""Tests of reading project and profile by dbt, and of the note that later commands read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from dbt_common.context import set_invocation_context

from ciris_scoring.cli.options import Place as PlaceOptions
from ciris_scoring.database.project import Project, load_project
from ciris_scoring.database.relations import Place, Relations
from ciris_scoring.lab import embedded
from ciris_scoring.project_files import copy_project
from command_line import at, printed
from conftest import REPOSITORY, Database

ENVIRONMENT = {"HOST": "db", "PORT": "6432", "DBT_ENV_SECRET_A": "a{{b", "EMPTY": ""}
OUTPUT = {
    **{"type": "postgres", "host": "{{ env_var('HOST') }}", "port": "{{ env_var('PORT') | as_number }}"},
    **{"user": "u", "pass": "{{ env_var('DBT_ENV_SECRET_A') }}", "dbname": "d", "schema": "s", "threads": 4},
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    set_invocation_context(dict(ENVIRONMENT))


@pytest.fixture
def profiles_dir(tmp_path: Path) -> Path:
    """Folder with a profile whose host and password are environment variables."""
    output = OUTPUT | {"pass": "{{ env_var('PASSWORD') }}"}
    profile = {"ciris_scoring": {"target": "dev", "outputs": {"dev": output, "prod": output | {"schema": "p"}}}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile))
    return tmp_path


def noted(project: Project) -> Project | None:
    """Write a note about a project, and return the project of the note."""
    project.note.write(project, Relations("s", {"dim_agents": Place("s", "agents")}))
    found = project.note.read()
    return found and found[0]


def test_note_gives_what_dbt_read_without_the_password(profiles_dir, monkeypatch):
    monkeypatch.setenv("DBT_TARGET_PATH", str(profiles_dir / "target"))
    monkeypatch.setenv("PASSWORD", "se{{cret")
    found = load_project(REPOSITORY, profiles_dir)
    assert not found.note.file.exists()
    assert noted(found) == found == load_project(REPOSITORY, profiles_dir)
    assert found.credentials.password == "se{{cret"
    assert "se{{cret" not in found.note.file.read_text()
    monkeypatch.setenv("PASSWORD", "other")
    assert load_project(REPOSITORY, profiles_dir).credentials.password == "other"
    assert load_project(REPOSITORY, profiles_dir, "prod").schema == "p"


@pytest.mark.parametrize("changed", ["profile", "environment", "password is unset", "note is cut off"])
def test_note_no_longer_holds_after_a_change(profiles_dir, monkeypatch, changed):
    monkeypatch.setenv("DBT_TARGET_PATH", str(profiles_dir / "target"))
    monkeypatch.setenv("PASSWORD", "secret")
    project = load_project(REPOSITORY, profiles_dir)
    assert noted(project) is not None
    if changed == "profile":
        file = profiles_dir / "profiles.yml"
        file.write_text(file.read_text() + "\n")
    elif changed == "environment":
        monkeypatch.setenv("HOST", "elsewhere")
    elif changed == "password is unset":
        monkeypatch.delenv("PASSWORD")
    else:
        project.note.file.write_text(project.note.file.read_text()[:40])
    assert project.note.read() is None


def test_nothing_is_noted_if_the_profile_has_other_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    output = OUTPUT | {"user": "{{ env_var('DBT_ENV_SECRET_A') }}", "pass": "p"}
    profile = {"ciris_scoring": {"target": "dev", "outputs": {"dev": output}}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile))
    project = load_project(REPOSITORY, tmp_path)
    assert noted(project) is None
    assert not project.note.file.exists()


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
    assert load_project(target="dev").schema == "dev"
    assert load_project(profile="embedded").profile_name == "embedded"
    monkeypatch.setenv("DBT_ENGINE_TARGET", "new")
    monkeypatch.setenv("DBT_PROFILE", "")
    found = load_project()
    assert (found.profile_name, found.target_name) == ("ciris_scoring", "new")


def test_embedded_server_ignores_target_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("DBT_TARGET", "prod")
    monkeypatch.setenv("DBT_PROFILE", "mine")
    monkeypatch.setattr(embedded, "start", lambda folder: embedded.Server("/nowhere", 5432, "postgres", tmp_path))
    folder = tmp_path / "project"
    copy_project(REPOSITORY, folder)
    (folder / ".ciris").mkdir()
    project = PlaceOptions(None, None, folder, None, True).project()
    assert (project.profile_name, project.target_name) == ("ciris_scoring", "dev")


def test_commands_that_read_start_without_importing_dbt(scored_sample: Database):
    """The first command notes what dbt found."""
    program = (
        "import sys; from ciris_scoring.cli.commands import main; main(sys.argv[1:], standalone_mode=False);"
        "print({'dbt', 'dbt_common', 'pandas', 'psycopg2', 'fastapi'} & sys.modules.keys())"
    )
    said = [
        printed(sys.executable, "-c", program, *words.split(), *at(scored_sample))
        for words in ("fleet", "fleet", "explain Link", "report --output -", "alerts --json")
    ]
    assert [text.splitlines()[-1] for text in said[1:]] == ["set()"] * 4
