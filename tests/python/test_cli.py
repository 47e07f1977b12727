"""Tests of commands with an unusable profile, and with databases that refuse a connection or a right."""

import re
import shutil
from collections.abc import Iterator

import pytest
import yaml

from ciris_scoring.database.project import load_project
from ciris_scoring.database.source_schema import create_source_tables
from ciris_scoring.errors import InputError
from ciris_scoring.lab import embedded
from ciris_scoring.project_files import copy_project
from command_line import command, invoke, refused, succeeded
from conftest import REPOSITORY, Database
from test_bad_input import dbt


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


def test_commands_that_read_find_the_embedded_database(scored_sample, tmp_path, monkeypatch):
    """Without a profile, they read the database of `run --embedded` and say so. Other commands do not."""
    copy_project(REPOSITORY, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "There is no dbt profile" in refused(invoke("fleet"), 2)[0]
    state_folder = tmp_path / ".ciris"
    state_folder.mkdir()
    shutil.copy(scored_sample.profiles_dir / "profiles.yml", state_folder)
    monkeypatch.setattr(embedded, "start", lambda _: scored_sample.server)
    monkeypatch.setattr(embedded, "write_profile", lambda *_: state_folder / "profiles.yml")
    for arguments in (["fleet"], ["explain", "Mire"], ["alerts"], ["report", "--output", "-"]):
        found = succeeded(invoke(*arguments))
        assert "Mire" in found.stdout and found.stderr == "Reading the embedded database in .ciris.\n"
    assert "There is no dbt profile" in refused(invoke("check"), 2)[0]
    for options in (["--target", "dev"], ["--profiles-dir", tmp_path]):
        assert "There is no dbt profile" in refused(invoke("fleet", *options), 2)[0]


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


def test_target_of_the_option_is_used_by_dbt_too(scored_sample, tmp_path, monkeypatch):
    """Without the option, dbt would look for the marts in the schema of the target dev."""
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    profile = yaml.safe_load((scored_sample.profiles_dir / "profiles.yml").read_text())
    outputs = profile["ciris_scoring"]["outputs"]
    outputs |= {"prod": outputs["dev"], "dev": outputs["dev"] | {"schema": "nowhere"}}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile))
    place = ("--profiles-dir", tmp_path, "--project-dir", REPOSITORY)
    assert "Mire" in succeeded(invoke("fleet", "--target", "prod", *place)).stdout


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


def test_run_without_a_right_says_which_one_and_what_a_run_needs(database, role):
    with database.connect() as connection:
        create_source_tables(connection)
        for missing, grant in (
            ("permission denied for database", f"grant create, temporary on database {database.name} to {role}"),
            ("permission denied for schema cirislens", f"grant usage on schema cirislens to {role}"),
            ("permission denied for table", f"grant select on all tables in schema cirislens to {role}"),
        ):
            error, hint = refused(command(database, "run", "--as-of", "2026-06-15"))
            assert missing in error and "usage of the source schema" in hint
            connection.execute(grant)
        succeeded(command(database, "run", "--as-of", "2026-06-15"))


def test_connection_limit_below_the_need_of_a_run_is_named(database, role):
    """The profile has 4 threads, so a run needs 7 connections."""
    database.execute(f"alter role {role} connection limit 0")
    error, hint = refused(command(database, "run"))
    assert "too many connections" in error and "as many connections as the target has threads, plus 3" in hint


@pytest.mark.slow
def test_role_of_the_target_is_set_as_dbt_sets_it(database, role):
    """The login role has no right except membership, and exactly as many connections as a run needs."""
    name = f"Score-er {database.name}"
    with database.connect() as connection:
        connection.execute(f'create role "{name}"')
        try:
            create_source_tables(connection)
            connection.execute(f"alter role {role} noinherit connection limit 7")
            connection.execute(f'grant "{name}" to {role} with inherit false')
            connection.execute(f'grant create, temporary on database {database.name} to "{name}"')
            connection.execute(f'grant usage on schema cirislens to "{name}"')
            connection.execute(f'grant select on all tables in schema cirislens to "{name}"')
            connection.execute(f"revoke temporary on database {database.name} from public")
            change_profile(database, role=name)
            error, hint = refused(command(database, "run"))
            assert f"role '{name}' of target 'dev' cannot be set: syntax error" in error
            assert """needs quotes: role: '"Score-er"'""" in hint
            change_profile(database, role=f'"{name}"')
            succeeded(command(database, "check"))
            succeeded(command(database, "run", "--as-of", "2026-06-14"))
            succeeded(dbt(database, "build", variables={"ciris_as_of": "2026-06-15T00:00:00Z"}))
            owners = connection.execute(
                "select distinct relowner::regrole::text from pg_class where relnamespace::regnamespace::text like %s",
                ["ciris%"],
            )
            assert set(owners.fetchall()) == {("postgres",), (f'"{name}"',)}
            assert len(connection.execute("select from ciris.fct_scoring_runs").fetchall()) == 2
        finally:
            connection.execute(f'drop owned by "{name}"; drop role "{name}"')


def test_simulate_fills_the_sources_once(database):
    size = ("--agents", 4, "--days", 9, "--end", "2026-06-15")
    told = succeeded(command(database, "simulate", *size)).stdout
    assert f"ciris-scoring run --as-of 2026-06-15T00:00:00Z --profiles-dir {database.profiles_dir}" in told
    assert "traces of 4 agents are in cirislens." in told
    assert "ciris-scoring run --as-of 2026-06-15T00:00:00Z" in told
    error, _ = refused(command(database, "simulate"))
    assert "schema cirislens already holds" in error


def test_embedded_server_refuses_a_path_with_a_space(tmp_path):
    with pytest.raises(InputError, match="the path has a space or a special character"):
        embedded.start(tmp_path / "a b" / ".ciris")
    assert not (tmp_path / "a b").exists()
