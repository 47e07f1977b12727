"""Tests of the run log for readers of the marts: outcomes of runs and their reasons."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import psycopg
import pytest
from click.testing import Result
from psycopg.rows import dict_row

import command_line
import test_bad_input as bad_input
from ciris_scoring.basics.errors import DbtFailed, RunInProgress, StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.job import run as job
from ciris_scoring.job.after_run import AfterRun
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.serve.pages import pages
from conftest import Database
from pipeline import MARTS, score
from test_bad_input import NEWEST, dbt, fleet_database
from test_gate import NO_TRIGGER, spoiled_as_it_is_made, trigger

AS_OF = SAMPLE["as_of"]
CLOSED = json.dumps(
    {"capacity_alert_id": "closed", "kind": "falling", "agent_name": None, "agent_id_hash": "gone"}
)


@pytest.fixture(scope="module")
def sample(sample_copy: Database) -> Database:
    return sample_copy


@pytest.fixture
def marts(sample: Database) -> Iterator[psycopg.Connection]:
    with sample.connect() as connection:
        connection.row_factory = dict_row
        yield connection


def newest(marts: psycopg.Connection) -> dict:
    return marts.execute(
        f"select * from {SCHEMA}.fct_scoring_runs order by coalesce(ended_at, started_at) desc limit 1"
    ).fetchone()


def test_published_run_is_logged_with_its_results(marts, sample):
    run = newest(marts)
    [[n_scores]] = [
        row.values() for row in marts.execute(f"select count(*) from {SCHEMA}.fct_capacity_scores").fetchall()
    ]
    assert (run["command"], run["outcome"], run["exit_code"]) == ("run", "published", 0)
    assert run["as_of"].isoformat() == AS_OF.replace("Z", "+00:00")
    assert run["n_scores"] == n_scores and run["n_late_traces"] == 0
    assert run["seconds"] > 0
    assert run["message"] is run["remedy"] is None


def test_refused_run_is_logged_with_its_reason(marts, sample):
    with pytest.raises(DbtFailed) as refused:
        score(sample.profiles_dir, AS_OF, {"ciris_scoring_parameters": {"min_traces": -1}})
    run = newest(marts)
    assert (run["outcome"], run["exit_code"]) == ("refused", 1)
    assert "min_traces" in run["message"] and run["message"] == refused.value.message
    assert run["n_scores"] is None
    assert "A run was refused" in pages.fleet_page(marts_of(sample), MARTS)
    assert "min_traces" in pages.runs_page(marts_of(sample), MARTS)


def test_run_refused_by_another_run_is_logged(marts, sample, monkeypatch):
    monkeypatch.setattr("ciris_scoring.basics.run_lock.LOCK_SECONDS", 0.1)
    with sample.connect() as other, run_lock(other, SCHEMA), pytest.raises(RunInProgress):
        score(sample.profiles_dir, AS_OF)
    assert newest(marts)["outcome"] == "refused" and "Another run is in progress" in newest(marts)["message"]


def test_failed_and_interrupted_runs_are_logged_until_the_next_success(marts, sample, monkeypatch):
    for error, outcome, code in (
        (StepError("the inputs\n are gone", "Build them."), "failed", 1),
        (KeyboardInterrupt(), "interrupted", 130),
        (ZeroDivisionError("a bug"), "failed", 1),
    ):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as patched, pytest.raises(type(error)):
            patched.setattr(job, "_build", fail)
            score(sample.profiles_dir, AS_OF)
        run = newest(marts)
        assert (run["outcome"], run["exit_code"]) == (outcome, code)
        if isinstance(error, StepError):
            assert (run["message"], run["remedy"]) == ("the inputs are gone", "Build them.")
            assert "The last run failed." in pages.fleet_page(marts_of(sample), MARTS)
            assert "the inputs are gone" in pages.runs_page(marts_of(sample), MARTS)
    assert newest(marts)["message"] == "ZeroDivisionError: a bug"
    score(sample.profiles_dir, AS_OF)
    assert newest(marts)["outcome"] == "published"
    assert "class=state" not in pages.fleet_page(marts_of(sample), MARTS)


def test_plain_dbt_is_logged_however_it_ends(marts, sample):
    variables = {"ciris_as_of": AS_OF}
    began = marts.execute("select now()").fetchone()["now"]
    assert dbt(sample, "build", variables=variables).succeeded
    run = newest(marts)
    assert (run["command"], run["outcome"], run["exit_code"], run["message"]) == (
        "dbt",
        "published",
        None,
        None,
    )
    assert run["as_of"].isoformat() == AS_OF.replace("Z", "+00:00")
    assert began < run["started_at"] < run["ended_at"] and run["seconds"] > 0
    scored = f"select count(*) as n from {SCHEMA}.fct_capacity_scores where scored_at > %s"
    assert run["n_scores"] == marts.execute(scored, [began]).fetchone()["n"] > 0
    assert run["n_late_traces"] == 0 and run["version"] == version("ciris-scoring")

    refused = dbt(sample, "build", variables={**variables, "ciris_scoring_parameters": {"min_traces": -1}})
    run = newest(marts)
    assert not refused.succeeded and (run["command"], run["outcome"]) == ("dbt", "refused")
    assert "min_traces" in run["message"] and "\n" not in run["message"]
    assert run["n_scores"] is None and run["ended_at"] is not None
    assert "A run was refused" in pages.fleet_page(marts_of(sample), MARTS)

    # A model refuses the parameters. Its transaction is rolled back, but the run log must not be.
    others = {**variables, "ciris_scoring_parameters": {"lambda_c": 6}}
    assert not dbt(sample, "build", variables=others).succeeded
    run = newest(marts)
    assert run["outcome"] == "refused" and "parameter_set_id" in run["message"]
    # The parameters are now stored in a table.
    assert dbt(sample, "build", variables=variables).succeeded

    part = dbt(sample, "build", "--select", "fct_fleet_capacity", variables=variables)
    run = newest(marts)
    assert part.succeeded and (run["outcome"], run["n_scores"]) == ("built", None)
    assert "class=state" not in pages.fleet_page(marts_of(sample), MARTS)

    marts.execute(trigger(".fct_fleet_capacity", "raise exception 'the disk is full';"))
    assert not dbt(sample, "build", variables=variables).succeeded
    run = newest(marts)
    assert run["outcome"] == "failed"
    assert run["message"].startswith("int_runs: ") and "the disk is full" in run["message"]
    assert "The last run failed." in pages.fleet_page(marts_of(sample), MARTS)
    marts.execute(NO_TRIGGER)
    n_runs = len(runs(marts))
    retried = dbt(sample, "retry")
    assert retried.succeeded, retried.said
    assert newest(marts)["outcome"] == "published" and len(runs(marts)) == n_runs + 1


def runs(marts: psycopg.Connection) -> list[dict]:
    return marts.execute(f"select * from {SCHEMA}.fct_scoring_runs order by started_at").fetchall()


def test_commands_that_build_no_model_are_not_logged(marts, sample):
    before = runs(marts)
    for command in ("compile", "test"):
        assert dbt(sample, command, "--select", "dim_scoring_windows").succeeded
    assert dbt(sample, "build", "--select", "no_such_model").succeeded
    assert runs(marts) == before


def test_run_that_was_killed_is_unfinished(marts, sample):
    """Its row is the one that it wrote at its start."""
    newest_row = f"""
        {SCHEMA}_intermediate.int_runs set {{}}
        where started_at = (select max(started_at) from {SCHEMA}_intermediate.int_runs)"""
    marts.execute("update" + newest_row.format("outcome = null, ended_at = null"))
    run = newest(marts)
    assert (run["outcome"], run["ended_at"], run["seconds"]) == ("unfinished", None, None)
    assert "The last run published nothing." in pages.fleet_page(marts_of(sample), MARTS)
    marts.execute("update" + newest_row.format("outcome = 'published', ended_at = now()"))


def test_first_run_is_logged_if_it_is_refused_or_fails(embedded_postgres, tmp_path):
    """A refused and a failed run, before any mart exists."""
    with fleet_database(embedded_postgres, tmp_path) as database, database.connect() as connection:
        log = (
            "select command, coalesce(outcome, 'unfinished'), message from"
            f" {SCHEMA}_intermediate.int_runs order by started_at desc limit 1"
        )
        variables = {"ciris_scoring_parameters": {"min_traces": -1}}
        assert bad_input.run(database, variables=variables).exit_code != 0
        command, outcome, message = connection.execute(log).fetchone()
        assert (command, outcome) == ("run", "refused") and "min_traces" in message
        connection.execute(
            spoiled_as_it_is_made("fct_fleet_capacity", "update {} set n_agents = n_agents / 0")
        )
        assert not dbt(database, "build", variables={"ciris_as_of": NEWEST}).succeeded
        command, outcome, message = connection.execute(log).fetchone()
        assert (command, outcome) == ("dbt", "failed") and "division by zero" in message
        connection.execute(NO_TRIGGER)
        assert bad_input.run(database).exit_code == 0
        outcomes = connection.execute(
            f"select command, outcome from {SCHEMA}.fct_scoring_runs order by started_at"
        ).fetchall()
        assert outcomes == [("run", "refused"), ("dbt", "failed"), ("run", "published")]


@pytest.fixture
def nothing_to_build(monkeypatch):
    """Replace the build by one that does nothing."""
    monkeypatch.setattr(job, "_build", lambda *_: None)


def invoke(database: Database, *arguments: str) -> Result:
    return command_line.invoke("run", *command_line.at(database), "--as-of", AS_OF, *arguments)


def test_json_summarizes_a_run_however_it_ends(sample, marts, nothing_to_build):
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
    read_alerts = AfterRun.read_alerts

    def read_others(after_run: AfterRun, connection: psycopg.Connection, marts: Relations) -> None:
        """Before the run, one alert was not raised and another one was only a warning."""
        with connection.transaction(force_rollback=True):
            change = f"{SCHEMA}.fct_capacity_alerts where capacity_alert_id = %s"
            connection.execute(f"delete from {change}", [added["capacity_alert_id"]])
            connection.execute(
                f"insert into {SCHEMA}.fct_capacity_alerts select (jsonb_populate_record(alert, %s)).*"
                f" from {SCHEMA}.fct_capacity_alerts as alert where capacity_alert_id = %s",
                [CLOSED, risen["capacity_alert_id"]],
            )
            connection.execute(
                f"update {SCHEMA}.fct_capacity_scores set verdict = 'wait'"
                " where as_of = %s and agent_id_hash like 'aff0528b%%' and window_days = 7",
                [AS_OF],
            )
            connection.execute(
                f"update {change.replace(' where', ' set severity = %s where')}",
                ["warning", risen["capacity_alert_id"]],
            )
            read_alerts(after_run, connection, marts)

    monkeypatch.setattr(AfterRun, "read_alerts", read_others)
    with receiver() as (address, received):
        refused = f"http://{address}/404"
        done = invoke(
            sample, "--on-alert", command, "--notify", f"http://{address}/hook", "--notify", refused
        )
        assert done.exit_code == 0 and "notification 2 (http) was not sent: HTTP Error 404" in done.stderr
        assert address not in done.output
    check_news(received, added, risen)
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


def check_news(received: list[dict[str, Any]], added: dict[str, Any], risen: dict[str, Any]) -> None:
    """Check the one message, with the alerts and verdicts that are new, closed or changed since the previous run."""
    [message] = received
    assert {alert["kind"] for alert in message["new_alerts"]} == {added["kind"], risen["kind"]}
    assert [alert["kind"] for alert in message["closed_alerts"]] == ["falling"]
    assert len(message["changed_verdicts"]) == 1, message["text"]
    [change] = message["changed_verdicts"]
    assert (change["window_days"], change["before"], change["now"]) == (7, "wait", "grant")
    assert message["outcome"] == "published" and message["as_of"] == AS_OF.replace("Z", "+00:00")
    assert "2 new alerts, 1 closed alert, 1 changed verdict" in message["title"]
    assert "Haven (aff0528b), 7 days: wait -> grant" in message["text"]


def test_a_run_without_news_sends_nothing_and_a_failed_one_says_why(sample, monkeypatch, nothing_to_build):
    with receiver() as (address, received):
        monkeypatch.setenv(
            "CIRIS_NOTIFY", f"http://{address}/hook jsons://no-such-host.invalid json://{address}/x"
        )
        assert invoke(sample).exit_code == 0 and received == []
        failed = invoke(sample, "--vars", "{ciris_scoring_period: week}")
        assert failed.exit_code == 2 and "notification 2 (jsons) was not sent" in failed.stderr
        assert received[0]["outcome"] == "refused" and "week" in received[0]["text"]
        assert "week" in received[1]["message"] and received[1]["type"] == "failure"  # by Apprise
        tested = invoke(sample, "--notify-test")
        assert tested.exit_code == 1 and len(received) == 4 and "arrive here" in received[2]["text"]


@pytest.mark.parametrize("address", ["", "x", "ftp://example.org", "https://", "http://[::1", "slack://"])
def test_an_address_of_no_service_is_refused_before_the_run(sample, marts, address):
    before = newest(marts)
    refused = invoke(sample, "--notify", address)
    assert refused.exit_code == 2 and "notification 1" in refused.stderr
    assert newest(marts) == before


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on loopback that keeps the JSON it gets, except at /404. Yield its address and the kept messages."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/404":
                received.append(body)
            self.send_response(404 if self.path == "/404" else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("command", ["", "'open"])
def test_invalid_alert_command_is_refused_before_the_run(sample, marts, command):
    before = newest(marts)
    refused = invoke(sample, "--on-alert", command)
    assert refused.exit_code == 2 and "--on-alert" in refused.stderr
    assert newest(marts) == before


def marts_of(database: Database) -> psycopg.Connection:
    connection = database.connect()
    connection.execute(f"set search_path to {SCHEMA}")
    return connection
