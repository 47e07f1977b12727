"""Tests of commands with an unusable profile, and with databases that refuse a connection or a right."""

import re
import shutil
from collections.abc import Iterator

import pytest
import yaml

from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import create_source_tables
from command_line import command, invoke, refused, succeeded
from conftest import REPOSITORY, Database


@pytest.fixture(autouse=True)
def no_profiles_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBT_PROFILES_DIR", raising=False)


def change_profile(database: Database, **changes: object) -> None:
    """Change values in the target of the database's profile."""
    path = database.profiles_dir / "profiles.yml"
    profile = yaml.safe_load(path.read_text())
    profile["ciris_scoring"]["outputs"]["dev"].update(changes)
    path.write_text(yaml.safe_dump(profile))


# --- profile and project ---------------------------------------------------------------------------------------------


def test_missing_profile_error_names_file_and_example(tmp_path, monkeypatch):
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "environment"))
    for options, folder in ([], tmp_path / "environment"), (["--profiles-dir", tmp_path], tmp_path):
        error, hint = refused(invoke("run", *options, "--project-dir", REPOSITORY), 2)
        assert str(folder / "profiles.yml") in error
        assert "profiles.yml.example" in hint and "--embedded" in hint
    monkeypatch.chdir(tmp_path)
    _, hint = refused(invoke("run", "--project-dir", REPOSITORY), 2)
    [batches] = re.findall("--profiles-dir (.*) after", hint)
    assert (tmp_path / batches).resolve() == REPOSITORY / ".ciris/batches"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("other: {target: dev, outputs: {}}", "Could not find profile named 'ciris_scoring'"),
        ("ciris_scoring: {target: dev, outputs: {prod: {type: postgres}}}", "does not have a target named 'dev'"),
        ("ciris_scoring: {target: dev, outputs: {dev: {type: postgres, host: here}}}", "is a required property"),
        ("ciris_scoring: {target: dev, outputs: {dev: {type: oracle}}}", "oracle"),
        ("{{ :", "profiles.yml"),
        ("", "empty"),
    ],
)  # fmt: skip
def test_an_unusable_profile_is_explained(tmp_path, content, expected):
    (tmp_path / "profiles.yml").write_text(content)
    error, hint = refused(invoke("run", "--profiles-dir", tmp_path, "--project-dir", REPOSITORY), 2)
    assert expected in error
    assert "profiles.yml.example" in hint


def test_the_example_profile_works(tmp_path, monkeypatch):
    shutil.copy(REPOSITORY / "profiles.yml.example", tmp_path / "profiles.yml")
    monkeypatch.setenv("CIRIS_DB_HOST", "db.example.org")
    monkeypatch.setenv("DBT_ENV_SECRET_CIRIS_DB_PASSWORD", "a secret")
    project = load_project(REPOSITORY, tmp_path)
    assert (project.credentials.host, project.credentials.port) == ("db.example.org", 5432)
    assert project.credentials.password == "a secret"
    assert "a secret" not in repr(project)


# --- databases that refuse a connection or a right -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "exit_code", "expected", "remedy"),
    [
        ({"host": "{{ env_var('CIRIS_NO_SUCH_VARIABLE') }}"}, 2, "CIRIS_NO_SUCH_VARIABLE", "profiles.yml.example"),
        ({"host": "127.0.0.1", "port": 1}, 1, "127.0.0.1:1", "host and port"),
        ({"dbname": "nowhere"}, 1, 'database "nowhere" does not exist', "createdb nowhere"),
        ({"user": "nobody_here"}, 1, 'role "nobody_here" does not exist', "Create the role"),
    ],
)  # fmt: skip
def test_message_explains_why_a_profile_does_not_connect(database, changes, exit_code, expected, remedy):
    change_profile(database, **changes)
    error, hint = refused(command(database, "run"), exit_code)
    assert expected in error and remedy in hint


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """The role of the database's profile. It has no rights."""
    name = f"role_{database.name}"
    change_profile(database, user=name)
    database.execute(f"revoke create on schema public from public; create role {name} login password 'right'")
    yield name
    database.execute(f"drop owned by {name}; drop role {name}")


def test_hint_has_the_statement_that_grants_the_missing_right(database, role):
    """The test executes the statement of each hint until the run has all rights."""
    granted = []
    options = ("--as-of", "2026-06-15", "--vars", "{ciris_scoring_parameters: {no: 1}}")
    with database.connect() as connection:
        create_source_tables(connection)
        connection.execute(f"revoke temporary on database {database.name} from public; create schema ciris")
        while True:
            error, hint = refused(command(database, "run", *options))
            if "Unknown scoring parameter" in error:
                break
            assert f"Role '{role}' has no right to" in error and error.count(" in database ") == 1
            statement = hint.split(": ", 2)[2]
            assert statement not in granted
            connection.execute(statement)
            granted.append(statement)
    assert [re.sub(rf'"({role}|{database.name})"', "X", s) for s in granted] == [
        'grant usage on schema "cirislens" to X',
        'grant select on "cirislens"."covenant_traces" to X',
        'grant select on "cirislens"."wbd_deferrals" to X',
        'grant select on "cirislens"."covenant_public_keys" to X',
        'grant select on "cirislens"."covenant_trace_batches" to X',
        'grant usage, create on schema "ciris" to X',
        'create schema "ciris_intermediate" authorization X',
        'create schema "ciris_staging" authorization X',
        "grant temporary on database X to X",
    ]


def test_simulate_fills_the_sources_once(database):
    size = ("--agents", 4, "--days", 9, "--end", "2026-06-15")
    told = succeeded(command(database, "simulate", *size)).stdout
    assert "traces of 4 agents are in cirislens." in told
    assert "ciris-scoring run --as-of 2026-06-15T00:00:00Z" in told
    error, _ = refused(command(database, "simulate"))
    assert "cirislens.covenant_traces already holds" in error
