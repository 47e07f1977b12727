"""Tests of the run log for readers of the marts, and of the notifications after a run."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import psycopg
import pytest
from click.testing import Result
from psycopg.rows import dict_row

import command_line
from ciris_scoring.cli.after_run import message_of
from ciris_scoring.database.run_lock import run_lock
from ciris_scoring.errors import DbtFailed
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts.alerts import Alert, News
from ciris_scoring.show.formats import time_text
from ciris_scoring.show.pages.fleet import fleet_page
from ciris_scoring.show.pages.other import runs_page
from command_line import succeeded
from conftest import Database
from pipeline import MARTS, score
from test_bad_input import dbt, refusal
from test_gate import NO_TRIGGER, trigger

AS_OF = SCORED_UNTIL = SAMPLE["as_of"]
CLOSED = json.dumps({"capacity_alert_id": "closed", "kind": "falling"})


@pytest.fixture
def marts(small_fleet: Database) -> Iterator[psycopg.Connection]:
    with opened(small_fleet) as connection:
        yield connection


@contextmanager
def opened(database: Database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        connection.row_factory = dict_row
        yield connection


def newest(marts: psycopg.Connection) -> dict:
    return marts.execute(
        f"select * from {SCHEMA}.fct_scoring_runs order by coalesce(ended_at, started_at) desc limit 1"
    ).fetchone()


def shown(page: Callable[..., str], database: Database) -> str:
    with database.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        return page(connection, MARTS)


def test_refused_run_is_logged_with_its_reason(marts, small_fleet):
    with pytest.raises(DbtFailed) as refused:
        score(small_fleet.profiles_dir, AS_OF, {"ciris_scoring_parameters": {"min_traces": -1}})
    run = newest(marts)
    assert (run["command"], run["outcome"]) == ("run", "refused")
    assert "min_traces" in run["message"] and run["message"] == refused.value.message
    assert run["n_scores"] is None
    assert "A run was refused" in shown(fleet_page, small_fleet)
    assert "min_traces" in shown(runs_page, small_fleet)


def test_run_refused_by_another_run_says_so(small_fleet):
    with small_fleet.connect() as other, run_lock(other, SCHEMA):
        refused = invoke(small_fleet, "--json")
    summary = json.loads(refused.stdout)
    assert (refused.exit_code, summary["outcome"], summary["exit_code"]) == (1, "refused", 1)
    assert "Another run is in progress" in summary["message"]


@pytest.mark.slow
def test_plain_dbt_is_logged_however_it_ends(marts, small_fleet):
    variables = {"ciris_as_of": AS_OF}
    began = marts.execute("select now()").fetchone()["now"]
    succeeded(dbt(small_fleet, "build", variables=variables))
    run = newest(marts)
    assert (run["command"], run["outcome"]) == ("dbt", "published")
    assert run["message"] is None
    assert run["as_of"].isoformat() == AS_OF.replace("Z", "+00:00")
    assert began < run["started_at"] < run["ended_at"] and run["seconds"] > 0
    scored = f"select count(*) as n from {SCHEMA}.fct_capacity_scores where scored_at > %s"
    assert run["n_scores"] == marts.execute(scored, [began]).fetchone()["n"] > 0
    assert run["n_late_traces"] == 0 and run["version"] == version("ciris-scoring")

    part = dbt(small_fleet, "build", "--select", "fct_fleet_capacity", variables=variables)
    run = newest(marts)
    assert (part.exit_code, run["outcome"], run["n_scores"]) == (0, "built", None)
    assert "class=state" not in shown(fleet_page, small_fleet)

    # A part that publishes counts the rows that it publishes, also if an earlier invocation has staged them.
    succeeded(
        dbt(small_fleet, "build", "--select", "fct_capacity_scores+", "--exclude", "int_runs+", variables=variables)
    )
    succeeded(dbt(small_fleet, "build", "--select", "int_runs+", variables=variables))
    staged, published = runs(marts)[-2:]
    assert (staged["outcome"], staged["n_scores"]) == ("built", None)
    assert (published["outcome"], published["n_scores"]) == ("published", runs(marts)[-4]["n_scores"])

    # A model refuses the parameters. Its transaction is rolled back, but its entry in the run log must remain.
    others = {**variables, "ciris_scoring_parameters": {"lambda_c": 6}}
    refusal(dbt(small_fleet, "build", variables=others))
    run = newest(marts)
    assert (run["command"], run["outcome"], run["n_scores"]) == ("dbt", "refused", None)
    assert "parameter_set_id" in run["message"] and "\n" not in run["message"]
    assert "A run was refused" in shown(fleet_page, small_fleet)

    marts.execute(trigger(".fct_fleet_capacity", "raise exception 'the disk is full';"))
    refusal(dbt(small_fleet, "build", variables=variables))
    run = newest(marts)
    assert run["outcome"] == "failed"
    assert run["message"].startswith("int_runs: ") and "the disk is full" in run["message"]
    assert "The last run failed." in shown(fleet_page, small_fleet)
    marts.execute(NO_TRIGGER)
    n_runs = len(runs(marts))
    succeeded(dbt(small_fleet, "retry"))
    assert newest(marts)["outcome"] == "published" and len(runs(marts)) == n_runs + 1


def runs(marts: psycopg.Connection) -> list[dict]:
    return marts.execute(f"select * from {SCHEMA}.fct_scoring_runs order by started_at").fetchall()


def invoke(database: Database, *arguments: str) -> Result:
    return command_line.invoke("run", *command_line.at(database), "--as-of", AS_OF, *arguments)


def test_json_and_messages_report_a_run_however_it_ends(small_fleet, marts, monkeypatch):
    """A run without changes, a run whose report cannot be written, and a refused run."""
    with receiver() as (address, received):
        monkeypatch.setenv("CIRIS_NOTIFY", f"http://{address}/hook https://no-such-host.invalid/")
        done = succeeded(invoke(small_fleet, "--json"))
        summary, run = json.loads(done.stdout), newest(marts)
        assert (run["command"], run["outcome"], run["message"]) == ("run", "published", None)
        assert [summary.pop(name) for name in ("new_alerts", "exit_code", "remedy")] == [[], 0, None]
        assert summary.pop("version") == run.pop("version") == version("ciris-scoring")
        for column in ("started_at", "ended_at", "as_of"):
            run[column] = time_text(run[column])
        del run["seconds"]
        assert summary == run and received == [] and "Warning" not in done.stderr

        options = ("--report", "/dev/full", "--vars", "{ciris_verdict_threshold: 0.25}")
        failed = invoke(small_fleet, "--json", *options)
        summary = json.loads(failed.stdout)
        assert (failed.exit_code, summary["outcome"], summary["exit_code"]) == (1, "published", 1)
        assert "The report cannot be written" in summary["message"]
        assert "run published, with an error" in received[0]["title"]
        assert "Warning: The verdicts of fct_verdicts have the threshold 0.25" in failed.stderr
        assert newest(marts)["outcome"] == "published"

        refused = invoke(small_fleet, "--json", "--vars", "{ciris_scoring_period: week}")
        summary = json.loads(refused.stdout)
        assert (refused.exit_code, summary["exit_code"], summary["outcome"]) == (2, 2, "refused")
        assert "week" in summary["message"] and summary["started_at"] is None
        assert "notification 2 was not sent" in refused.stderr
        assert received[1]["outcome"] == "refused" and "week" in received[1]["text"]
        tested = invoke(small_fleet, "--notify-test")
        assert tested.exit_code == 1 and len(received) == 3 and "arrive here" in received[2]["text"]


def test_new_and_ended_alerts_and_changed_verdicts_are_sent(sample_copy):
    """Before the run, an alert is deleted, a critical alert is made a warning, an alert that has ended is added, and a
    verdict is changed to "wait". The run publishes the right rows again."""
    mart = f"{SCHEMA}.fct_capacity_alerts"
    with opened(sample_copy) as marts:
        alerts = marts.execute(f"select * from {mart} where as_of = %s order by severity, kind", [AS_OF]).fetchall()
        added, risen = alerts[-1], next(alert for alert in alerts if alert["severity"] == "critical")
        marts.execute(
            f"insert into {mart} select (jsonb_populate_record(alert, %s)).* from {mart} as alert"
            " where capacity_alert_id = %s",
            [CLOSED, risen["capacity_alert_id"]],
        )
        marts.execute(f"delete from {mart} where capacity_alert_id = %s", [added["capacity_alert_id"]])
        change = f"update {mart} set severity = 'warning' where capacity_alert_id = %s"
        marts.execute(change, [risen["capacity_alert_id"]])
        marts.execute(
            f"update {SCHEMA}.fct_verdicts set verdict = 'wait'"
            " where as_of = %s and agent_id_hash like 'aff0528b%%' and window_days = 7",
            [AS_OF],
        )
    with receiver() as (address, received):
        done = invoke(sample_copy, "--notify", f"http://{address}/hook", "--notify", f"http://{address}/404")
        assert done.exit_code == 0 and "notification 2 was not sent: HTTP Error 404" in done.stderr
        assert address not in done.output
    [message] = received
    found = {(alert["agent_id_hash"], alert["window_days"], alert["kind"]) for alert in message["new_alerts"]}
    assert found == {(alert["agent_id_hash"], alert["window_days"], alert["kind"]) for alert in (added, risen)}
    assert [alert["kind"] for alert in message["ended_alerts"]] == ["falling"]
    [change] = message["changed_verdicts"]
    assert (change["window_days"], change["before"], change["now"]) == (7, "wait", "grant")
    assert message["outcome"] == "published" and message["as_of"] == AS_OF
    assert "2 new alerts, 1 ended alert, 1 changed verdict" in message["title"]
    assert "Haven (aff0528b) in 7 days: missing fields; wait -> grant" in message["text"]


def test_text_of_a_message_mentions_nobody_and_links_nowhere():
    """Names and messages of alerts come from agents. Chats turn parts of a text into mentions."""
    name = "<b>@everyone</b> <!channel> !here> <@&12> [a](https://evil.example) https://evil.example|b>"
    news = News([Alert("f" * 64, name, name, datetime(2026, 6, 15, tzinfo=UTC), 7, "falling", "warning", 1, 1, name)])
    message = message_of(RunRecord("run"), news)
    assert not re.search("@[a-z&]|<[b/!@]|![ch]|]\\(|://", message["text"])
    assert message["text"].replace("\u200b", "").count(name) == 2
    assert message["new_alerts"][0]["agent_name"] == name


@pytest.mark.parametrize(
    "address", ["json://localhost/a", "", "x", "ftp://example.org", "http://[::1", "https://", "http://localhost:0/"]
)
def test_unusable_address_is_refused_before_the_run(small_fleet, marts, address):
    before = newest(marts)
    refused = invoke(small_fleet, "--notify", address)
    assert refused.exit_code == 2 and "notification 1" in refused.stderr
    assert newest(marts) == before


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Start an HTTP server that stores the received JSON, except at /404. Yield its address and the stored messages."""
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
