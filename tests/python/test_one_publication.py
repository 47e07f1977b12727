"""Tests that a reader of several marts sees a single publication, whatever a run does and wherever it is killed.

A lock stops a run at its publication. All readers read, the run is killed, and they read again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.api.settings import Settings
from ciris_scoring.serve.explain import explain
from ciris_scoring.serve.report import report
from command_line import PATIENCE_SECONDS, PROGRAMS, Command, at
from conftest import REPOSITORY, Database
from serving import SCORING, asking, opened
from test_bad_input import marts, run
from test_gate import BEFORE, NEWEST, VERDICTS_LEFT_OUT, published

LOCK = 4711
HOLD = f"""
    create function public.hold() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock({LOCK}); return new; end $$;
    create trigger hold before insert on {SCHEMA}_intermediate.int_runs for each row
        when (new.published_at is not null) execute function public.hold();
    """
LET_GO = "drop function public.hold cascade"
WAITS = f"select from pg_locks where locktype = 'advisory' and objid = {LOCK} and not granted"


@dataclass
class Readers:
    """All readers of the marts."""

    database: Database
    client: TestClient
    agents: list[str]

    def answers(self) -> dict[str, Any]:
        """Return all answers without their time of creation and without the state of the run in progress."""
        [agent, *_] = self.agents
        found: dict[str, Any] = {}
        for path in (
            *("/capacity/fleet", "/capacity/fleet?window_days=30", "/alerts", "/red-flags", "/parameters"),
            *(f"/{kind}/{agent}" for agent in self.agents for kind in ("capacity", "factors", "history")),
        ):
            answer = self.client.get(SCORING + path)
            assert answer.status_code == 200, answer.text
            found[path] = {k: v for k, v in answer.json().items() if k not in ("timestamp", "cache")}
        for path in ("/", f"/agent?agent_id={agent}", "/alerts", "/red-flags", "/parameters"):
            page = self.client.get(path)
            assert page.status_code == 200, page.text
            found[f"page {path}"] = re.findall(r"<tr.*?</tr>", page.text, re.DOTALL)
        project = load_project(REPOSITORY, self.database.profiles_dir)
        found["report"] = json.loads(report(project, None, json=True))
        found["explain"] = explain(project, agent, None, None, None)
        return found


@contextmanager
def readers(database: Database) -> Iterator[Readers]:
    project = load_project(REPOSITORY, database.profiles_dir)
    with database.connect() as connection:
        agents = connection.execute(f"select agent_id_hash from {SCHEMA}.dim_agents order by 1").fetchall()
    with opened(project, 4) as served, asking(served, Settings(version_seconds=0)) as client:
        yield Readers(database, client, [agent for (agent,) in agents])


@pytest.fixture(scope="module")
def database(small_fleet: Database) -> Database:
    """A small fleet, scored up to the day before the last."""
    assert run(small_fleet, as_of=BEFORE).exit_code == 0
    with small_fleet.connect() as connection:
        connection.execute(VERDICTS_LEFT_OUT)
    return small_fleet


@contextmanager
def held(database: Database) -> Iterator[Command]:
    """Start a real run and stop it at its publication."""
    with database.connect() as holder:
        holder.execute(HOLD)
        holder.execute("select pg_advisory_lock(%s)", [LOCK])
        with Command(PROGRAMS / "ciris-scoring", "run", *at(database), "--as-of", NEWEST) as command:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while holder.execute(WAITS).fetchone() is None:
                assert time.monotonic() < deadline and not command.has_ended, command.said
                time.sleep(0.02)
            yield command
            command.kill()
        holder.execute("select pg_advisory_unlock_all()")
    wait_until_alone(database)
    with database.connect() as connection:
        connection.execute(LET_GO)


def wait_until_alone(database: Database) -> None:
    """Wait until the server has ended the queries of a killed run, which takes a second."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    query = """
        select from pg_stat_activity
        where datname = current_database() and state = 'active' and pid <> pg_backend_pid() and query ~ 'fct_|int_'
        """
    with database.connect() as connection:
        while connection.execute(query).fetchone() is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_readers_see_one_publication_while_runs_write_and_are_killed(database: Database) -> None:
    before = published(marts(database))
    with readers(database) as reading:
        said = reading.answers()
        with held(database):
            assert reading.answers() == said, "while the run publishes"
            assert published(marts(database)) == before, "while the run publishes"
        assert reading.answers() == said, "after the run was killed"
        assert published(marts(database)) == before, "after the run was killed"
        assert run(database, as_of=NEWEST).exit_code == 0
        now = reading.answers()
        assert now["/capacity/fleet"]["as_of"] > said["/capacity/fleet"]["as_of"]
        assert now["/red-flags"]["total_red_flag_count"] > said["/red-flags"]["total_red_flag_count"]


def test_answer_uses_one_publication_if_another_arrives_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server determines the publication, and then a run publishes a new one."""
    later = "2026-06-16T00:00:00+00:00"
    with readers(database) as reading:
        reading.client.app.state.answers.settings = Settings(version_seconds=3600)  # type: ignore[attr-defined]
        assert reading.client.get(f"{SCORING}/parameters").status_code == 200
        assert run(database, as_of=later).exit_code == 0
        [agent, *_] = reading.agents
        fleet = reading.client.get(f"{SCORING}/capacity/fleet").json()
        assert fleet["as_of"] == later
        history = reading.client.get(f"{SCORING}/history/{agent}").json()
        assert history["to"] == history["current_as_of"] == history["history"][-1]["as_of"] == later
        alerts = reading.client.get(f"{SCORING}/alerts").json()
        assert {alerts["as_of"], *(one["as_of"] for one in alerts["alerts"])} == {later}
