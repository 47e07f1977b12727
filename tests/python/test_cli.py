"""Tests of the commands: messages for errors, and the output of a run."""

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
from ciris_scoring.lab.simulation.sample import SAMPLE
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


def test_missing_profile_error_names_file_and_example(tmp_path, monkeypatch):
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "environment"))
    for options, folder in ([], tmp_path / "environment"), (["--profiles-dir", tmp_path], tmp_path):
        error, hint = refused(invoke("run", *options, "--project-dir", REPOSITORY), 2)
        assert str(folder / "profiles.yml") in error
        assert "profiles.yml.example" in hint and "--embedded" in hint


def test_missing_profile_error_names_profiles_of_scored_sample_and_batches(small_project, monkeypatch):
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


def test_the_example_profile_works(tmp_path, monkeypatch):
    shutil.copy(REPOSITORY / "profiles.yml.example", tmp_path / "profiles.yml")
    monkeypatch.setenv("CIRIS_DB_HOST", "db.example.org")
    monkeypatch.setenv("DBT_ENV_SECRET_CIRIS_DB_PASSWORD", "a secret")
    project = load_project(REPOSITORY, tmp_path)
    assert (project.credentials.host, project.credentials.port) == ("db.example.org", 5432)
    assert project.credentials.password == "a secret"
    assert "a secret" not in repr(project)


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_no_color_suppresses_colours_on_a_terminal(no_color, is_coloured):
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "ciris_scoring.cli", "run", "--vars", "7"]
    subprocess.run(command, stderr=follower, env={**os.environ, "NO_COLOR": no_color}, check=False)
    os.close(follower)
    said = os.read(leader, 65_536)
    os.close(leader)
    assert b"Error:" in said and (b"\x1b[" in said) == is_coloured


# --- the database ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "exit_code", "expected", "remedy"),
    [
        (
            {"host": "{{ env_var('CIRIS_NO_SUCH_VARIABLE') }}"},
            2,
            "CIRIS_NO_SUCH_VARIABLE",
            "profiles.yml.example",
        ),
        ({"host": "127.0.0.1", "port": 1}, 1, "127.0.0.1:1", "host and port"),
        ({"dbname": "nowhere"}, 1, 'database "nowhere" does not exist', "createdb nowhere"),
        ({"user": "nobody_here"}, 1, 'role "nobody_here" does not exist', "Create the role"),
    ],
)
def test_a_profile_that_does_not_connect_is_explained(database, changes, exit_code, expected, remedy):
    change_profile(database, **changes)
    error, hint = refused(invoke("run", *at(database)), exit_code)
    assert expected in error and remedy in hint


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
            {% for end in ['', '_low', '_high', '_certainty'] %}
                'high_capacity' as category{{ end }}, 'high_capacity' as category_steady{{ end }},
            {% endfor %}
            null::text as interval_driver, 'R' as weakest_factor, null::text as steady_missing_because,
            {% for factor in ['c', 'i_int', 'i_inc', 's'] %}
                {% for end in ['', '_low', '_high'] %} 1::float8 as {{ factor }}_score{{ end }}, {% endfor %}
            {% endfor %}
            r_score, r_score as r_score_low, r_score as r_score_high,
            r_score as capacity_score_steady, 0.61::float8 as capacity_score_steady_low,
            r_score as capacity_score_steady_high, 0::float8 as mttr_hours_steady_minus_weekly,
            0::float8 as q_deferral_steady_minus_weekly, 0.6::float8 as verdict_threshold, now() as scored_at,
            0.07::float8 as r_ceiling_loss, 0.9::float8 as probability_at_threshold,
            r_score as grant_score, r_score as withhold_score, 0 as n_steady_deferrals,
            {% for rate in ['key', 'signature', 'link'] %} 1::float8 as {{ rate }}_rate, {% endfor %}
            0 as chain_gaps, 0 as chain_rewinds, 0 as chain_duplicates
        from {{ ref('int_resilience') }}
        """,
    "models/marts/fct_score_attribution.sql": """
        select agent_id_hash, as_of, window_days, 'mttr_hours' as loss_component, 0::float8 as points_lost, 1 as rank
        from {{ ref('fct_capacity_scores') }} where false
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
        select agent_id_hash, as_of - interval '60 days' as first_traced_at, as_of as last_traced_at
        from {{ ref('fct_capacity_scores') }}
        """,
    "models/intermediate/scoring_windows.sql": "select 7 as window_days",
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
        *("Ægir (agent)", "grant", "90 %", "0.924 [0.61, 0.92]", "0.924 [0.50, 0.92]"),
    ]
    stderr = result.stderr
    assert re.search(r"as of 2026-06-15T00:00:00Z, held by \d+\n", stderr)
    assert re.search(r"\d of 15  ok +\d\.\d s  model int_", stderr)
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


FAILURES = {
    "hook": ("Error: Parameter tau is 0, but must be positive.", "dbt's log is"),
    "model": (
        "dbt stopped at model int_resilience (models/intermediate/int_resilience.sql): division by zero",
        "The marts stay as they were.",
    ),
    "test": (
        "dbt stopped at test agent_is_known (models/small.yml): Got 1 result",
        "The marts stay as they were.",
    ),
}


def test_a_run_stops_at_the_first_failure(sources, small_project):
    first = invoke("run", *at(sources, small_project), "--as-of", "2026-06-14")
    assert first.exit_code == 0, first.output
    with sources.connect() as connection:
        before = connection.execute("select * from ciris.fct_capacity_scores").fetchall()
        for failing, (expected_error, expected_hint) in FAILURES.items():
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


def test_embedded_scores_the_sample_in_any_folder_and_prints_next_steps(small_project, tmp_path, monkeypatch):
    project = tmp_path / "long" / ('it\'s a "project" of $1, really' + "n" * 100)
    project.parent.mkdir(exist_ok=True)
    small_project.rename(project)
    elsewhere = data_folder.temporary("ciris-")
    monkeypatch.setattr(data_folder, "_folders_of_the_user", lambda: [elsewhere])
    state = project / STATE_FOLDER
    try:
        first = invoke("run", "--embedded", "--project-dir", project)
        assert first.exit_code == 0, first.output
        assert "Loaded the sample" in first.stderr
        as_of = as_of_time.text(as_of_time.parse_time(SAMPLE["as_of"], "as_of"))
        for expected in (
            *(f"Fleet at {as_of}", f"stop --project-dir {shlex.quote(str(project))}"),
            *("fct_factor_components", "fct_trace_checks", "fct_fleet_capacity"),
        ):
            assert expected in first.stdout
        [psql] = re.findall(r"  psql +(.+)", first.stdout)
        query = f"select count(*) from cirislens.covenant_traces where timestamp < '{as_of}'"
        assert int(printed(*shlex.split(psql), "-Atc", query)) > 1000
        [profiles] = re.findall(r"--profiles-dir (.+) --vars", first.stdout)
        assert shlex.split(profiles) == [str(state)]

        second = invoke("run", "--embedded", "--project-dir", project)
        assert second.stdout == first.stdout
        assert re.search(r"Using the [\d,]+ traces in cirislens.covenant_traces", second.stderr)
    finally:
        stopped = invoke("stop", "--delete", "--project-dir", project)
        left = [*elsewhere.iterdir()]
        shutil.rmtree(elsewhere)
    assert stopped.output == "The embedded PostgreSQL has stopped.\n"
    assert left == []
    assert not embedded.stop(state)


# --- the real project ------------------------------------------------------------------------------------------------


def test_simulate_fills_the_sources_once(database):
    simulated = invoke("simulate", *at(database), "--agents", 4, "--days", 9, "--end", "2026-06-15")
    assert simulated.exit_code == 0, simulated.output
    assert "traces of 4 agents are in cirislens." in simulated.stdout
    assert "ciris-scoring run --as-of 2026-06-15T00:00:00Z" in simulated.stdout
    error, _ = refused(invoke("simulate", *at(database)))
    assert "cirislens.covenant_traces already holds" in error
