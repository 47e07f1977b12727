"""The log of runs: what was published, refused, failed or interrupted, and why, for those who read the marts."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator

import psycopg
import pytest
from click.testing import Result
from psycopg.rows import dict_row

import command_line
from ciris_scoring.basics.errors import DbtFailed, RunInProgress, StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.job import run as job
from ciris_scoring.job.closing import Closing
from ciris_scoring.show.pages import pages
from ciris_scoring.trial.embedded import SCHEMA
from ciris_scoring.trial.simulation.sample import sample_info
from conftest import Database, copy_of
from pipeline import MARTS, score

AS_OF = sample_info()["as_of"]


@pytest.fixture(scope="module")
def sample(scored_sample: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with copy_of(scored_sample, tmp_path_factory.mktemp("runs")) as database:
        yield database


@pytest.fixture
def marts(sample: Database) -> Iterator[psycopg.Connection]:
    with sample.connect() as connection:
        connection.row_factory = dict_row
        yield connection


def newest(marts: psycopg.Connection) -> dict:
    return marts.execute(
        f"select * from {SCHEMA}.fct_scoring_runs order by coalesce(ended_at, started_at) desc limit 1"
    ).fetchone()


def test_a_run_that_publishes_says_what_and_how_long(marts, sample):
    run = newest(marts)
    [[n_scores]] = [
        row.values() for row in marts.execute(f"select count(*) from {SCHEMA}.fct_capacity_scores").fetchall()
    ]
    assert (run["command"], run["outcome"], run["exit_code"]) == ("run", "published", 0)
    assert run["as_of"].isoformat() == AS_OF.replace("Z", "+00:00")
    assert run["n_scores"] == n_scores and run["n_late_traces"] == 0
    parts = [run[f"{part}_seconds"] for part in ("first_half", "steps", "second_half")]
    assert all(part > 0 for part in parts) and sum(parts) <= run["seconds"]
    assert run["message"] is run["remedy"] is None


def test_a_refusal_is_told_with_its_reason(marts, sample):
    with pytest.raises(DbtFailed) as refused:
        score(sample.profiles_dir, AS_OF, {"ciris_scoring_parameters": {"min_traces": -1}})
    run = newest(marts)
    assert (run["outcome"], run["exit_code"]) == ("refused", 1)
    assert "min_traces" in run["message"] and run["message"] == refused.value.message
    assert run["first_half_seconds"] is run["n_scores"] is None
    page = pages.fleet_page(marts_of(sample), MARTS)
    assert "The last run was refused." in page and "min_traces" in page


def test_a_run_that_another_one_keeps_out_is_told_until_that_one_ends(marts, sample, monkeypatch):
    monkeypatch.setattr("ciris_scoring.basics.run_lock.LOCK_SECONDS", 0.1)
    with sample.connect() as other, run_lock(other, SCHEMA), pytest.raises(RunInProgress):
        score(sample.profiles_dir, AS_OF)
    assert newest(marts)["outcome"] == "refused" and "Another run is at work" in newest(marts)["message"]


def test_failures_and_interruptions_are_told_and_the_next_run_ends_the_tale(marts, sample, monkeypatch):
    for error, outcome, code in (
        (StepError("the inputs\n are gone", "Build them."), "failed", 1),
        (KeyboardInterrupt(), "interrupted", 130),
        (ZeroDivisionError("a bug"), "failed", 1),
    ):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as patched, pytest.raises(type(error)):
            patched.setattr(job, "_build", lambda *_: None)
            patched.setattr(job, "_run_steps", fail)
            score(sample.profiles_dir, AS_OF)
        run = newest(marts)
        assert (run["outcome"], run["exit_code"]) == (outcome, code)
        assert run["first_half_seconds"] is not None and run["steps_seconds"] is None
        if isinstance(error, StepError):
            assert (run["message"], run["remedy"]) == ("the inputs are gone", "Build them.")
            page = pages.fleet_page(marts_of(sample), MARTS)
            assert "The last run failed." in page and "the inputs are gone" in page
    assert newest(marts)["message"] == "ZeroDivisionError: a bug"
    score(sample.profiles_dir, AS_OF)
    assert newest(marts)["outcome"] == "published"
    assert "class=state" not in pages.fleet_page(marts_of(sample), MARTS)


def test_a_killed_run_stays_unfinished_and_plain_dbt_is_known_by_what_it_published(marts):
    marts.execute(
        f"insert into {SCHEMA}_intermediate.int_run_attempts (run_attempt_id, started_at, command, as_of)"
        " values (gen_random_uuid(), now(), 'run', now())"
    )
    assert newest(marts)["outcome"] == "unfinished"
    marts.execute(f"delete from {SCHEMA}_intermediate.int_run_attempts")
    assert (newest(marts)["command"], newest(marts)["outcome"]) == ("dbt", "published")


@pytest.fixture
def nothing_to_build(monkeypatch):
    """Runs whose building and computing is done already."""
    monkeypatch.setattr(job, "_build", lambda *_: None)
    monkeypatch.setattr(job, "_run_steps", lambda *_: None)


def invoke(database: Database, *arguments: str) -> Result:
    return command_line.invoke("run", *command_line.at(database), "--as-of", AS_OF, *arguments)


def test_json_sums_up_a_run_however_it_ends(sample, marts, nothing_to_build):
    done = invoke(sample, "--json")
    assert done.exit_code == 0, done.output
    summary, run = json.loads(done.stdout), newest(marts)
    assert summary.pop("new_alerts") == []
    for column in ("started_at", "ended_at", "as_of"):
        run[column] = run[column].isoformat()
    del run["seconds"]
    assert summary == run
    failed = invoke(sample, "--json", "--vars", "{ciris_scoring_period: week}")
    summary = json.loads(failed.stdout)
    assert (failed.exit_code, summary["exit_code"], summary["outcome"]) == (2, 2, "refused")
    assert "week" in summary["message"] and summary["started_at"] is None


def test_alerts_that_are_new_or_have_become_critical_go_to_the_command(
    sample, marts, tmp_path, monkeypatch, nothing_to_build
):
    told = tmp_path / "told it.json"
    command = shlex.join(
        [sys.executable, "-c", f"import sys; open({str(told)!r}, 'w').write(sys.stdin.read())"]
    )
    assert invoke(sample, "--on-alert", command).exit_code == 0 and not told.exists()

    alerts = marts.execute(
        f"select * from {SCHEMA}.fct_capacity_alerts"
        f" where as_of = (select max(as_of) from {SCHEMA}.fct_fleet_capacity) order by severity, kind"
    ).fetchall()
    added, risen = alerts[-1], next(alert for alert in alerts if alert["severity"] == "critical")
    read_alerts = Closing.read_alerts

    def read_others(closing: Closing, connection: psycopg.Connection, marts: Relations) -> None:
        """Before the run, one alert was not there and another one only a warning."""
        with connection.transaction(force_rollback=True):
            change = f"{SCHEMA}.fct_capacity_alerts where capacity_alert_id = %s"
            connection.execute(f"delete from {change}", [added["capacity_alert_id"]])
            connection.execute(
                f"update {change.replace(' where', ' set severity = %s where')}",
                ["warning", risen["capacity_alert_id"]],
            )
            read_alerts(closing, connection, marts)

    monkeypatch.setattr(Closing, "read_alerts", read_others)
    assert invoke(sample, "--on-alert", command).exit_code == 0
    document = json.loads(told.read_text())
    assert document["as_of"] == AS_OF.replace("Z", "+00:00")
    found = {(alert["agent_id_hash"], alert["window_days"], alert["kind"]) for alert in document["alerts"]}
    assert found == {
        (alert["agent_id_hash"], alert["window_days"], alert["kind"]) for alert in (added, risen)
    }

    for command, reason in (("false", "exit code 1"), ("./no-such-command", "cannot be started")):
        failed = invoke(sample, "--json", "--on-alert", command)
        assert failed.exit_code == 1 and reason in failed.stderr
        summary = json.loads(failed.stdout)
        assert (summary["outcome"], summary["exit_code"]) == ("published", 1) and reason in summary["message"]
        assert newest(marts)["exit_code"] == 0


@pytest.mark.parametrize("command", ["", "'open"])
def test_a_command_that_is_none_is_refused_before_the_run(sample, marts, command):
    before = newest(marts)
    refused = invoke(sample, "--on-alert", command)
    assert refused.exit_code == 2 and "--on-alert" in refused.stderr
    assert newest(marts) == before


def marts_of(database: Database) -> psycopg.Connection:
    connection = database.connect()
    connection.execute(f"set search_path to {SCHEMA}")
    return connection
