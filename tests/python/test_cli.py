"""Tests of the commands: messages for errors, help texts, and the output of a run."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.basics.project import BATCHES_FOLDER, STATE_FOLDER, load_project
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab import data_folder, embedded
from ciris_scoring.lab.simulation.sample import sample_info
from command_line import at, invoke, printed, refused
from conftest import REPOSITORY, Database


@pytest.fixture(autouse=True)
def no_profiles_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBT_PROFILES_DIR", raising=False)


@pytest.fixture
def sources(database: Database) -> Database:
    """A database with empty source tables."""
    with database.connect() as connection:
        create_source_tables(connection)
    return database


def change_profile(database: Database, **changes: object) -> None:
    """Change values in the target of the database's profile."""
    path = database.profiles_dir / "profiles.yml"
    profile = yaml.safe_load(path.read_text())
    profile["ciris_scoring"]["outputs"]["dev"].update(changes)
    path.write_text(yaml.safe_dump(profile))


# --- paths -----------------------------------------------------------------------------------------------------------

LONG_NAME = "y" * 300
LONG_PATH = "/abcd" * 1_000
JUST_SHORT_ENOUGH = "/tmp" + "/abcd" * 817  # a file in it would have a path that is too long
UNUSABLE_PATHS = {
    "a\0b": "NUL character",
    f"/tmp/{LONG_NAME}": "305 characters",
    LONG_PATH: "5,000 characters",
}
OPTIONS_WITH_PATHS = [
    *(("check", option) for option in ("--profiles-dir", "--project-dir")),
    *(("run", option) for option in ("--report", "--keys", "--from-batches")),
    *(("report", "--output"), ("init",), ("load",), ("audit",)),
    *(("load", "batches.json", "--keys"), ("audit", "batches.json", "--keys")),
    *(("stop", "--project-dir"), ("serve", "--profiles-dir"), ("explain", "Link", "--project-dir")),
]


@pytest.mark.parametrize("path", UNUSABLE_PATHS, ids=["nul", "long name", "long path"])
@pytest.mark.parametrize("arguments", OPTIONS_WITH_PATHS, ids=" ".join)
def test_a_path_that_cannot_be_looked_up_is_named(arguments, path):
    result = invoke(*arguments, path)
    assert result.exit_code == 2 and UNUSABLE_PATHS[path] in result.stderr
    assert len(result.stderr) < 600


@pytest.mark.parametrize("folder", [f"/tmp/{LONG_NAME}", LONG_PATH, JUST_SHORT_ENOUGH, "loop/x"])
def test_a_profiles_folder_that_cannot_be_looked_up_is_named(folder, tmp_path, monkeypatch):
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(REPOSITORY)
    named = str(tmp_path / folder)
    monkeypatch.setenv("DBT_PROFILES_DIR", named)
    error, hint = refused(invoke("check"), 2)
    assert error.startswith("Error: The profile cannot be looked up: ") and len(error) < 300
    assert "DBT_PROFILES_DIR" in hint
    monkeypatch.delenv("DBT_PROFILES_DIR")
    monkeypatch.setenv("HOME", named)
    assert "cannot be looked up" in refused(invoke("check"), 2)[0]


@pytest.mark.parametrize("arguments", OPTIONS_WITH_PATHS, ids=" ".join)
def test_path_of_maximum_length_gives_a_message(arguments, database):
    place = [] if arguments[0] in ("init", "stop") or "-dir" in arguments[-1] else at(database)
    result = invoke(*arguments, JUST_SHORT_ENOUGH, *place)
    assert result.exit_code in (1, 2) and result.stdout + result.stderr  # and there is no traceback


def test_a_loop_of_symbolic_links_is_named(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for arguments in OPTIONS_WITH_PATHS:
        result = invoke(*arguments, tmp_path / "loop" / "x")
        assert result.exit_code == 2 and "lead back to themselves" in result.stderr, arguments


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "explain", "report", "serve", "simulate"])
def test_help_explains_and_gives_examples(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    for expected in (
        "Example",
        "ciris-scoring " + command,
        "--target",
        "--profiles-dir",
        "--vars",
        "--project-dir",
    ):
        assert expected in result.stdout


def test_help_names_the_commands_and_the_exit_codes():
    assert all(
        word in invoke("--help").stdout
        for word in (
            "run",
            "explain",
            "report",
            "simulate",
            "exit code",
            "--embedded",
        )
    )


# --- output on the terminal ------------------------------------------------------------------------------------------


def test_messages_hold_no_control_characters(database):
    error, _ = refused(invoke("run", *at(database), "--as-of", "a\x1b[31m\nb\u202e"), 2)
    assert error.isprintable()
    variables = yaml.safe_dump({"ciris_source_schema": "a\x1b[31m\nb\u202e"})
    result = invoke("run", *at(database), "--as-of", "2026-06-15", "--vars", variables)
    assert result.exit_code == 1
    assert all(line.isprintable() for line in result.stderr.splitlines()), result.stderr


def test_characters_unknown_to_stdout_are_replaced(sources, small_project):
    command = [
        sys.executable,
        "-m",
        "ciris_scoring.cli",
        "run",
        *at(sources, small_project),
        "--as-of",
        "2026-06-15",
    ]
    environment = {**os.environ, "PYTHONIOENCODING": "iso8859-5"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"?gir (agent)  grant" in done.stdout


# --- profile and project ---------------------------------------------------------------------------------------------


def test_no_profile_says_what_to_write_and_where(tmp_path):
    error, hint = refused(invoke("run", "--profiles-dir", tmp_path, "--project-dir", REPOSITORY), 2)
    assert str(tmp_path / "profiles.yml") in error
    assert "profiles.yml.example" in hint
    assert "--embedded" in hint


def test_without_a_profile_a_command_names_that_of_what_was_scored_here(small_project, monkeypatch):
    monkeypatch.chdir(small_project)
    monkeypatch.setenv("DBT_PROFILES_DIR", str(small_project / "none"))
    for command in (["explain", "Link"], ["report"], ["serve", "--port", "0"]):
        assert "--profiles-dir" not in refused(invoke(*command), 2)[1]
    for folder in (STATE_FOLDER, BATCHES_FOLDER):
        (small_project / folder).mkdir()
        (small_project / folder / "profiles.yml").touch()
    for command in (["explain", "Link"], ["report"], ["serve", "--port", "0"]):
        hint = refused(invoke(*command), 2)[1]
        assert (
            "Add --profiles-dir .ciris for the sample, or --profiles-dir .ciris/batches for your batches."
            in hint
        )


def test_the_profile_is_found_through_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path))
    error, _ = refused(invoke("run", "--project-dir", REPOSITORY), 2)
    assert str(tmp_path / "profiles.yml") in error


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("other: {target: dev, outputs: {}}", "Could not find profile named 'ciris_scoring'"),
        (
            "ciris_scoring: {target: dev, outputs: {prod: {type: postgres}}}",
            "does not have a target named 'dev'",
        ),
        (
            "ciris_scoring: {target: dev, outputs: {dev: {type: postgres, host: here}}}",
            "is a required property",
        ),
        ("ciris_scoring: {target: dev, outputs: {dev: {type: oracle}}}", "oracle"),
        ("{{ :", "profiles.yml"),
        ("", "empty"),
    ],
    ids=["name", "target", "incomplete", "adapter", "yaml", "empty"],
)
def test_an_unusable_profile_is_explained(tmp_path, content, expected):
    (tmp_path / "profiles.yml").write_text(content)
    error, hint = refused(invoke("run", "--profiles-dir", tmp_path, "--project-dir", REPOSITORY), 2)
    assert expected in error
    assert "profiles.yml.example" in hint


def test_a_missing_environment_variable_is_named(database):
    change_profile(database, host="{{ env_var('CIRIS_NO_SUCH_VARIABLE') }}")
    error, _ = refused(invoke("run", *at(database)), 2)
    assert "CIRIS_NO_SUCH_VARIABLE" in error


def test_a_target_that_does_not_exist_is_named(database):
    error, _ = refused(invoke("run", *at(database), "--target", "prod"), 2)
    assert "'prod'" in error


def test_no_project_is_explained(database, tmp_path):
    error, hint = refused(invoke("run", *at(database, project=tmp_path)), 2)
    assert str(tmp_path) in error
    assert "--project-dir" in hint


def test_the_example_profile_works(tmp_path, monkeypatch):
    shutil.copy(REPOSITORY / "profiles.yml.example", tmp_path / "profiles.yml")
    monkeypatch.setenv("CIRIS_DB_HOST", "db.example.org")
    monkeypatch.setenv("DBT_ENV_SECRET_CIRIS_DB_PASSWORD", "a secret")
    project = load_project(REPOSITORY, tmp_path)
    assert (project.credentials.host, project.credentials.port) == ("db.example.org", 5432)
    assert project.credentials.password == "a secret"
    assert "a secret" not in repr(project)


# --- values ----------------------------------------------------------------------------------------------------------


def test_an_as_of_may_come_in_vars_but_not_twice(database):
    malformed = invoke("run", *at(database), "--vars", "{ciris_as_of: soon}")
    assert "The variable ciris_as_of is 'soon'" in refused(malformed, 2)[0]
    twice = invoke("run", *at(database), "--vars", "{ciris_as_of: 2026-01-01}", "--as-of", "2026-01-01")
    assert "given twice" in refused(twice, 2)[0]


@pytest.mark.parametrize("variables", ["{ciris_as_of: [}", "just words", "[1, 2]", "7"])
def test_malformed_vars_are_named(database, variables):
    error, hint = refused(invoke("run", *at(database), "--vars", variables), 2)
    assert "--vars" in error
    assert variables in error
    assert "YAML dictionary" in hint


@pytest.mark.parametrize(
    ("variables", "meant"),
    [
        (
            "{ciris_scoring_perid: hour}",
            "'ciris_scoring_perid', which is no variable of the project; did you mean ciris_scoring_period?",
        ),
        ("{ciris_as_of: 2026-06-15, nonsense: 1}", "'nonsense', which is no variable of the project."),
        ("{1: 2}", "names 1, which is no variable of the project."),
    ],
)
@pytest.mark.parametrize("command", ["run", "simulate"])
def test_an_unknown_variable_is_refused(database, command, variables, meant):
    error, hint = refused(invoke(command, *at(database), "--vars", variables), 2)
    assert error.endswith(meant)
    assert "lookback_periods" in hint and "scoring_parameters" in hint


def test_the_hint_lists_the_variables_that_are_documented_and_no_other(database):
    _, hint = refused(invoke("run", *at(database), "--vars", "{nonsense: 1}"), 2)
    documented = re.findall(
        r"^\| `(ciris_\w+)` \|", (REPOSITORY / "docs/configuration.md").read_text(), re.MULTILINE
    )
    assert re.findall(r"\w+", hint.removeprefix("Hint: The variables are ")) == sorted(documented)


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_no_color_suppresses_colours_on_a_terminal(no_color, is_coloured):
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "ciris_scoring.cli", "run", "--vars", "7"]
    subprocess.run(command, stderr=follower, env={**os.environ, "NO_COLOR": no_color}, check=False)
    os.close(follower)
    said = os.read(leader, 65_536)
    os.close(leader)
    assert b"Error:" in said and (b"\x1b[" in said) == is_coloured


def test_embedded_with_a_profile_is_refused(database):
    result = invoke("run", "--embedded", *at(database))
    assert "--embedded brings its own profile" in refused(result, 2)[0]


@pytest.mark.parametrize(
    "arguments",
    [["--agents", "0"], ["--days", "-1"], ["--traces-per-day", "0"], ["--seed", "x"]],
    ids=lambda arguments: arguments[0],
)
def test_impossible_fleet_is_refused(database, arguments):
    result = invoke("simulate", *at(database), *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr


def test_a_malformed_end_is_named(database):
    assert "--end is 'never'" in refused(invoke("simulate", *at(database), "--end", "never"), 2)[0]
    error, _ = refused(invoke("simulate", *at(database), "--end", "2026-06-15T00:30Z"), 2)
    assert "hour" in error


# --- the database ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_unreachable_database_is_named(database, command):
    change_profile(database, host="127.0.0.1", port=1)
    error, hint = refused(invoke(command, *at(database)))
    assert "127.0.0.1:1" in error
    assert "Connection refused" in error
    assert "host and port" in hint


def test_missing_database_is_named(database):
    change_profile(database, dbname="nowhere")
    error, hint = refused(invoke("run", *at(database)))
    assert 'database "nowhere" does not exist' in error
    assert "createdb nowhere" in hint


def test_missing_user_is_named(database):
    change_profile(database, user="nobody_here")
    error, hint = refused(invoke("run", *at(database)))
    assert 'role "nobody_here" does not exist' in error
    assert "Create the role" in hint


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role without any rights, with which the database's profile logs in."""
    name = f"role_{database.name}"
    change_profile(database, user=name)
    with database.connect() as connection:
        connection.execute(
            f"revoke create on schema public from public; create role {name} login password 'right'"
        )
        yield name
        connection.execute(f"drop owned by {name}; drop role {name}")


def test_wrong_password_is_reported(database, role):
    with database.connect() as connection:
        [path] = connection.execute("show hba_file").fetchone()
        rules = Path(path).read_text()
        Path(path).write_text(f"local all {role} scram-sha-256\n{rules}")
        connection.execute("select pg_reload_conf()")
        try:
            change_profile(database, password="hunter2")
            error, hint = refused(invoke("run", *at(database)))
            assert f'password authentication failed for user "{role}"' in error
            assert "hunter2" not in error + hint
            assert f"Correct user and password of the target in {database.profiles_dir}" in hint
            change_profile(database, password="{{ env_var('CIRIS_NO_SUCH_VARIABLE') }}")
            assert "Set the environment variable" in refused(invoke("run", *at(database)))[1]
        finally:
            Path(path).write_text(rules)
            connection.execute("select pg_reload_conf()")


def test_missing_rights_come_with_the_statement_that_grants_them(sources, role):
    """The test executes the hints one after the other until the run has all rights."""
    granted = []
    with sources.connect() as connection:
        connection.execute(f"revoke temporary on database {sources.name} from public")
        while True:
            result = invoke(
                "run", *at(sources), "--as-of", "2026-06-15", "--vars", "{ciris_scoring_parameters: {no: 1}}"
            )
            error, hint = refused(result)
            if "Unknown scoring parameter" in error:
                break
            assert f"Role '{role}' has no right to" in error and error.count(" in database ") == 1
            statement = hint.split(": ", 2)[2]
            assert statement not in granted
            connection.execute(statement)
            granted.append(statement)
    assert [re.sub(rf'"({role}|{sources.name})"', "X", s) for s in granted] == [
        'grant usage on schema "cirislens" to X',
        'grant select on "cirislens"."covenant_traces" to X',
        'grant select on "cirislens"."wbd_deferrals" to X',
        'grant select on "cirislens"."covenant_public_keys" to X',
        'grant select on "cirislens"."covenant_trace_batches" to X',
        'create schema "ciris" authorization X',
        'create schema "ciris_intermediate" authorization X',
        'create schema "ciris_staging" authorization X',
        "grant temporary on database X to X",
    ]


def test_schema_of_another_role_needs_a_grant(sources, role):
    with sources.connect() as connection:
        connection.execute(f"grant usage on schema cirislens to {role}; create schema ciris")
        connection.execute(f"grant select on all tables in schema cirislens to {role}")
        error, hint = refused(invoke("run", *at(sources)))
    assert "create tables in schema ciris" in error
    assert 'grant usage, create on schema "ciris"' in hint


# --- concurrent runs -------------------------------------------------------------------------------------------------


def test_runs_on_different_schemas_do_not_block_each_other(database):
    with database.connect() as first, database.connect() as second:
        with run_lock(first, "ciris"), run_lock(second, "ciris_dev"):
            pass
        with run_lock(second, "ciris"):  # the first connection has released the lock
            pass


# --- a small project instead of the real one: how a run handles dbt's output -----------------------------------------

PROJECT = {
    "dbt_project.yml": """
        name: ciris_scoring
        profile: ciris_scoring
        vars: {ciris_scoring_period: day, ciris_as_of: null, ciris_traces_from: 2020-01-01, ciris_lock_holder_pid: null,
          failing: nothing}
        on-run-start: ["{% if execute %}{{ check_run() }}{% endif %}"]
        models: {ciris_scoring: {intermediate: {+schema: intermediate}, +materialized: table}}
        """,
    "macros/check_run.sql": """
        {% macro check_run() %}
          {% if var('failing') == 'hook' %}
            {{ exceptions.raise_compiler_error("Parameter tau is 0, but must be positive.") }}
          {% endif %}
          {{ log("as of " ~ var('ciris_as_of') ~ ", held by " ~ var('ciris_lock_holder_pid'), info=true) }}
        {% endmacro %}
        """,
    "models/intermediate/int_resilience.sql": """
        select 'agent'::text as agent_id_hash, timestamptz '{{ var("ciris_as_of") }}' as as_of, 7 as window_days,
            0.924::float8 as r_score
        {% if var('failing') == 'model' %}, 1 / 0 as impossible {% endif %}
        """,
    "models/intermediate/int_scoring_run.sql": """
        select timestamptz '-infinity' as cutoff, 'set' as parameter_set_id, 'set' as published_parameter_set_id,
            false as is_full_refresh, now() as as_of, now() as started_at
        """,
    "models/marts/fct_capacity_scores.sql": """
        select agent_id_hash, 'Ægir' as agent_name, as_of, window_days, as_of - interval '7 days' as window_start,
            30 as n_traces, 'medium' as confidence, '{}'::text[] as unmeasured_components, 'set' as parameter_set_id,
            r_score as capacity_score, 0.5::float8 as capacity_score_low, r_score as capacity_score_high,
            r_score as capacity_score_geometric, 1::float8 as fragility_index, 'final' as score_status,
            {% for end in ['', '_low', '_high', '_certainty'] %} 'high_capacity' as category{{ end }}, {% endfor %}
            'high_capacity' as category_steady, 'certain' as category_steady_certainty,
            null::text as interval_driver, 'R' as weakest_factor, null::text as steady_missing_because,
            {% for factor in ['c', 'i_int', 'i_inc', 's'] %}
                {% for end in ['', '_low', '_high'] %} 1::float8 as {{ factor }}_score{{ end }}, {% endfor %}
            {% endfor %}
            r_score, r_score as r_score_low, r_score as r_score_high,
            r_score as capacity_score_steady, 0.61::float8 as capacity_score_steady_low,
            r_score as capacity_score_steady_high, 0::float8 as mttr_hours_steady_minus_weekly,
            0::float8 as q_deferral_steady_minus_weekly, 0.6::float8 as verdict_threshold, now() as scored_at,
            0.07::float8 as r_ceiling_loss, r_score as grant_score, r_score as withhold_score
        from {{ ref('int_resilience') }}
        """,
    "models/marts/fct_fleet_capacity.sql": """
        select distinct as_of, window_days from {{ ref('fct_capacity_scores') }}
        """,
    "models/marts/fct_score_comparisons.sql": """
        select agent_id_hash, as_of, window_days, 'window' as compared_with, as_of as compared_as_of,
            0::float8 as score_before, 0::float8 as change, null::text as not_comparable_because
        from {{ ref('fct_capacity_scores') }} where false
        """,
    "models/marts/dim_agents.sql": """
        select agent_id_hash, as_of as last_traced_at from {{ ref('fct_capacity_scores') }}
        """,
    "models/marts/dim_scoring_windows.sql": "select 7 as window_days, 23 as baseline_days, 30 as coherence_days",
    "models/marts/dim_scoring_parameters.sql": "select 'min_traces' as parameter_name, '30' as parameter_value",
    "models/marts/fct_capacity_alerts.sql": """
        select agent_id_hash, agent_name, as_of, window_days, 'none' as kind,
            'warning' as severity, '' as message,
            0::float8 as value, 0::float8 as threshold
        from {{ ref('fct_capacity_scores') }} where false
        """,
    "models/marts/fct_data_quality.sql": """
        select 'late_trace' as issue, 1 as n, as_of as first_as_of, as_of as last_as_of
        from {{ ref('fct_capacity_scores') }} where false
        """,
    "models/marts/fct_record_signs.sql": """
        select agent_id_hash, as_of, window_days, 'none' as red_flag, '' as field
        from {{ ref('fct_capacity_scores') }} where false
        """,
    "models/small.yml": """
        models:
          - name: int_resilience
            columns:
              - name: agent_id_hash
                data_tests:
                  - accepted_values:
                      name: agent_is_known
                      arguments: {values: ["{{ 'nobody' if var('failing') == 'test' else 'agent' }}"]}
                  - accepted_values:
                      name: agent_is_welcome
                      arguments: {values: [friend]}
                      config: {severity: warn}
        """,
    # Models that a run names, but that the small project does not need.
    **{
        f"models/{name}.sql": "{{ config(materialized='ephemeral') }} select 1 as nothing"
        for name in (*("int_runs", "fct_factor_components", "fct_trace_checks"),)
    },
}


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, content in PROJECT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content))
    return folder


def test_a_run_builds_scores_and_prints_the_table(sources, small_project, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=8MB")
    result = invoke("run", *at(sources, small_project), "--as-of", "2026-06-15T13:00Z")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "Fleet at 2026-06-15T00:00:00Z, window of 7 days, 1 agents; for a threshold of 0.6: review 0,"
    )
    assert re.split("  +", lines[4])[:5] == [
        *("Ægir (agent)", "grant", "0.924 [0.61, 0.92]", "0.924 [0.50, 0.92]", "high_capacity"),
    ]
    stderr = result.stderr
    assert re.search(r"as of 2026-06-15T00:00:00Z, held by \d+\n", stderr)
    assert re.search(r"\d of 13  ok +\d\.\d s  model int_", stderr)
    assert re.search(r"WARN +\d\.\d s  test agent_is_welcome  Got 1 result", stderr)
    assert "\x1b" not in result.output
    assert os.environ["PGOPTIONS"] == "-c work_mem=8MB"
    for table in (
        "covenant_traces holds no trace before",
        "wbd_deferrals holds no",
        "covenant_public_keys holds no",
    ):
        assert f"Note: cirislens.{table}" in stderr

    again = invoke("run", *at(sources, small_project), "--as-of", "2026-06-15")
    assert again.stdout == result.stdout


@pytest.mark.parametrize(
    ("failing", "expected_error", "expected_hint"),
    [
        ("hook", "dbt stopped: Parameter tau is 0, but must be positive.", "dbt's log is"),
        ("model", "dbt stopped at model int_resilience (models/intermediate/int_resilience.sql): "
         "division by zero", "The marts stay as they were."),
        ("test", "dbt stopped at test agent_is_known (models/small.yml): Got 1 result", "The marts stay as they were."),
    ],
)  # fmt: skip
def test_a_run_stops_at_the_first_failure(sources, small_project, failing, expected_error, expected_hint):
    first = invoke("run", *at(sources, small_project), "--as-of", "2026-06-14")
    assert first.exit_code == 0
    with sources.connect() as connection:
        before = connection.execute("select * from ciris.fct_capacity_scores").fetchall()
        options = ["--as-of", "2026-06-15", "--vars", f"{{failing: {failing}}}"]
        error, hint = refused(invoke("run", *at(sources, small_project), *options))
        assert expected_error in error
        assert expected_hint in hint
        assert connection.execute("select * from ciris.fct_capacity_scores").fetchall() == before
        with run_lock(connection, "ciris"):  # the failed run has released the lock
            pass


def test_server_lost_during_a_run_is_reported(sources, small_project, monkeypatch):
    def end_all_sessions(*_args):
        with psycopg.connect(sources.server.conninfo("postgres"), autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [sources.name]
            )

    with monkeypatch.context() as patch:
        patch.setattr("ciris_scoring.job.dbt_build._Progress._show", end_all_sessions)
        result = invoke("run", *at(sources, small_project), "--as-of", "2026-06-15")
    error, hint = refused(result)
    assert re.search("terminating connection|closed the connection", error)
    assert "Run again" in hint
    assert invoke("run", *at(sources, small_project), "--as-of", "2026-06-15").exit_code == 0


# --- the embedded server ---------------------------------------------------------------------------------------------


def test_embedded_scores_the_sample_and_says_how_to_go_on(small_project):
    state = small_project / STATE_FOLDER
    try:
        first = invoke("run", "--embedded", "--project-dir", small_project)
        assert first.exit_code == 0, first.output
        assert "Loaded the sample" in first.stderr
        as_of = as_of_time.text(as_of_time.parse_time(sample_info()["as_of"], "as_of"))
        assert f"Fleet at {as_of}" in first.stdout
        for expected in (
            f"stop --project-dir {shlex.quote(str(small_project))}",
            "psql",
            "fct_factor_components",
            "fct_trace_checks",
            "fct_fleet_capacity",
        ):
            assert expected in first.stdout
        [psql] = re.findall(r"  psql +(.+)", first.stdout)
        query = f"select count(*) from cirislens.covenant_traces where timestamp < '{as_of}'"
        assert int(printed(*shlex.split(psql), "-Atc", query)) > 1000

        second = invoke("run", "--embedded", "--project-dir", small_project)
        assert second.stdout == first.stdout
        assert re.search(r"Using the [\d,]+ traces in cirislens.covenant_traces", second.stderr)
    finally:
        stopped = embedded.stop(state)
    assert stopped
    assert not embedded.stop(state)


def test_exec_runs_a_command_with_a_temporary_server():
    script = "import os, psycopg; print(psycopg.connect('').info.host); raise SystemExit(7)"
    command = [
        sys.executable,
        "-m",
        "ciris_scoring.lab.embedded",
        "exec",
        "--",
        sys.executable,
        "-c",
        script,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert not Path(done.stdout.strip()).exists()


@pytest.mark.parametrize(
    "folder", ['it\'s a "project" of $1, really', "long/" + "n" * 100], ids=["quotes", "long"]
)
def test_embedded_works_in_folders_with_special_characters(small_project, tmp_path, monkeypatch, folder):
    project = tmp_path / folder
    project.parent.mkdir(exist_ok=True)
    small_project.rename(project)
    elsewhere = data_folder.temporary("ciris-")
    monkeypatch.setattr(data_folder, "_folders_of_the_user", lambda: [elsewhere])
    state = project / STATE_FOLDER
    try:
        result = invoke("run", "--embedded", "--project-dir", project)
        assert result.exit_code == 0, result.output
        [psql] = re.findall(r"  psql +(.+)", result.stdout)
        assert printed(*shlex.split(psql), "-Atc", "select 6 * 7") == "42\n"
        [profiles] = re.findall(r"--profiles-dir (.+) --vars", result.stdout)
        assert shlex.split(profiles) == [str(state)]
    finally:
        stopped = invoke("stop", "--delete", "--project-dir", project)
        left = [*elsewhere.iterdir()]
        shutil.rmtree(elsewhere)
    assert stopped.output == "The embedded PostgreSQL has stopped.\n"
    assert left == []
    assert not embedded.stop(state)


# --- the real project ------------------------------------------------------------------------------------------------


def test_repeated_run_after_simulate_changes_nothing(database):
    simulated = invoke("simulate", *at(database), "--agents", 4, "--days", 9, "--end", "2026-06-15")
    assert simulated.exit_code == 0, simulated.output
    assert "traces of 4 agents are in cirislens." in simulated.stdout
    assert "ciris-scoring run --as-of 2026-06-15T00:00:00Z" in simulated.stdout
    error, _ = refused(invoke("simulate", *at(database)))
    assert "cirislens.covenant_traces already holds" in error

    run = invoke("run", *at(database), "--as-of", "2026-06-15")
    assert run.exit_code == 0, run.output
    for window in (7, 30):
        assert f"Fleet at 2026-06-15T00:00:00Z, window of {window} days, 4 agents" in run.stdout
    again = invoke("run", *at(database), "--as-of", "2026-06-15")
    assert (again.exit_code, again.stdout) == (0, run.stdout), again.output


def test_a_run_on_empty_sources_succeeds_and_says_so(sources):
    result = invoke("run", *at(sources), "--as-of", "2026-06-15")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "No agent has a trace in a scoring window at 2026-06-15T00:00:00Z: the fleet table is empty.\n"
    )
    assert "Note: cirislens.covenant_traces holds no trace before 2026-06-15T00:00:00Z" in result.stderr
