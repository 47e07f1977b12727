"""Tests of the verdict's threshold: it is published, kept with final rows, and shown by all readers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.rows import dict_row

from ciris_scoring.basics.errors import CirisError
from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import sample_info
from ciris_scoring.serve.api.app import create_app
from ciris_scoring.serve.api.settings import Settings
from ciris_scoring.serve.fleet_table import fleet_tables
from ciris_scoring.serve.pages import pages
from ciris_scoring.serve.pages.words import VERDICTS
from command_line import at, invoke
from conftest import REPOSITORY, Database
from pipeline import MARTS, score
from serving import opened

AS_OF = datetime.fromisoformat(sample_info()["as_of"])
FINAL = AS_OF - timedelta(days=10)
"""An as-of before the restatement window of the next run."""
OLD, NEW = 0.6, 0.8


@pytest.fixture(scope="module")
def rethought(sample_copy: Database) -> Database:
    """The sample, published with one threshold and then run with another."""
    score(sample_copy.profiles_dir, AS_OF, {"ciris_verdict_threshold": NEW})
    return sample_copy


@pytest.fixture(scope="module")
def marts(rethought: Database) -> Iterator[psycopg.Connection]:
    with rethought.connect() as connection:
        connection.row_factory = dict_row
        yield connection


@pytest.fixture(scope="module")
def client(rethought: Database) -> Iterator[TestClient]:
    with (
        opened(load_project(REPOSITORY, rethought.profiles_dir)) as served,
        TestClient(create_app(served, Settings()), base_url="http://localhost") as client,
    ):
        yield client


def published(marts: psycopg.Connection, as_of: datetime, window_days: int = 7) -> dict[str, dict[str, Any]]:
    query = f"select * from {SCHEMA}.fct_capacity_scores where as_of = %s and window_days = %s"
    return {row["agent_id_hash"]: row for row in marts.execute(query, [as_of, window_days]).fetchall()}


def test_final_rows_keep_verdict_and_threshold(marts: psycopg.Connection, scored_sample: Database) -> None:
    thresholds = marts.execute(
        f"select as_of, min(verdict_threshold) as low, max(verdict_threshold) as high from {SCHEMA}.fct_capacity_scores"
        " group by as_of order by as_of"
    ).fetchall()
    assert [(row["low"], row["high"]) for row in thresholds[-4:]] == [(OLD, OLD), *[(NEW, NEW)] * 3]
    assert {(row["low"], row["high"]) for row in thresholds[:-3]} == {(OLD, OLD)}
    with scored_sample.connect() as connection:
        connection.row_factory = dict_row
        assert published(connection, FINAL) == published(marts, FINAL)
        before, now = published(connection, AS_OF), published(marts, AS_OF)
    assert {before[agent]["parameter_set_id"] for agent in before} == {
        now[agent]["parameter_set_id"] for agent in now
    }
    assert [before[agent]["verdict"] for agent in before] != [now[agent]["verdict"] for agent in before]


@pytest.mark.parametrize(("as_of", "threshold"), [(AS_OF, NEW), (FINAL, OLD)])
class TestReaders:
    """All readers show threshold and verdicts of the rows that they read."""

    def test_fleet_table_shows_published_threshold_and_verdicts(
        self, rethought: Database, marts: psycopg.Connection, as_of, threshold
    ) -> None:
        with rethought.connect() as connection:
            first = fleet_tables(connection, MARTS, as_of).splitlines()[0]
        counted = Counter(row["verdict"] for row in published(marts, as_of).values())
        verdicts = ", ".join(
            f"{name} {counted[name]}" for name in ("review", "withhold", "keep", "wait", "grant")
        )
        assert first.endswith(f"for a threshold of {threshold:g}: {verdicts}")

    def test_explain_shows_published_threshold_and_verdict(
        self, rethought: Database, marts: psycopg.Connection, as_of, threshold
    ) -> None:
        for agent, row in list(published(marts, as_of).items())[:4]:
            asked = ("explain", agent, *at(rethought), "--as-of", as_of.isoformat(), "--json")
            found = json.loads(invoke(*asked).stdout)
            assert found["verdict"]["verdict"] == row["verdict"], row["agent_name"]
            assert found["verdict"]["threshold"] == found["score"]["verdict_threshold"] == threshold
        page = invoke("explain", agent, *at(rethought), "--as-of", as_of.isoformat()).stdout
        assert f"Verdict at {threshold:g}: {row['verdict']}" in page

    def test_api_returns_published_threshold_and_verdicts(
        self, client: TestClient, marts: psycopg.Connection, as_of, threshold
    ) -> None:
        at_the_as_of = {"as_of": as_of.isoformat()}
        rows = published(marts, as_of)
        fleet = client.get("/api/v1/scoring/capacity/fleet", params=at_the_as_of).json()
        assert {agent["agent_id_hash"]: agent["verdict"] for agent in fleet["agents"]} == {
            agent: row["verdict"] for agent, row in rows.items() if row["capacity_score"] is not None
        }
        below = client.get("/api/v1/scoring/alerts", params={**at_the_as_of, "threshold": 1}).json()["agents"]
        assert below and {agent["verdict_threshold"] for agent in [*fleet["agents"], *below]} == {threshold}
        assert all(agent["verdict"] == rows[agent["agent_id_hash"]]["verdict"] for agent in below)
        one = client.get(f"/api/v1/scoring/factors/{next(iter(rows))}", params=at_the_as_of).json()
        assert (one["verdict"], one["verdict_threshold"]) == (next(iter(rows.values()))["verdict"], threshold)

    def test_pages_show_published_threshold_and_verdicts(
        self, client: TestClient, marts: psycopg.Connection, as_of, threshold
    ) -> None:
        at_the_as_of = {"as_of": as_of.isoformat()}
        rows = published(marts, as_of)
        fleet = client.get("/", params=at_the_as_of).text
        counted = Counter(row["verdict"] for row in rows.values())
        assert f"</a> of <b>{threshold:g}</b>" in fleet
        for name, (said, _) in VERDICTS.items():
            assert f'<b class="v {name}">{said}</b>\n<b class=big>{counted[name]}</b>' in fleet
        agent = client.get("/agent", params={**at_the_as_of, "agent_id": next(iter(rows))}).text
        said, _ = VERDICTS[next(iter(rows.values()))["verdict"]]
        assert f"<b>{said}</b> at " in agent and f"threshold {threshold:g}</span>" in agent


def test_report_shows_published_threshold_and_verdicts(
    rethought: Database, marts: psycopg.Connection
) -> None:
    rows = published(marts, AS_OF)
    report = json.loads(invoke("report", *at(rethought), "--json", "--output", "-").stdout)
    assert {one["agent_id_hash"]: one["verdict"]["verdict"] for one in report["agents"]} == {
        agent: row["verdict"] for agent, row in rows.items()
    }
    assert {one["verdict"]["threshold"] for one in report["agents"]} == {NEW}
    with rethought.connect() as connection:
        assert f"of <b>{NEW:g}</b>" in pages.report_page(connection, MARTS)


def test_asked_threshold_applies_to_every_as_of(client: TestClient, rethought: Database) -> None:
    for as_of in (AS_OF, FINAL):
        asked = {"as_of": as_of.isoformat(), "threshold": 0.3}
        fleet = client.get("/api/v1/scoring/capacity/fleet", params=asked).json()["agents"]
        assert {agent["verdict_threshold"] for agent in fleet} == {0.3}
        assert "of <b>0.3</b>" in client.get("/", params=asked).text
    told = invoke("explain", fleet[0]["agent_id_hash"], *at(rethought), "--threshold", "0.3", "--json").stdout
    assert json.loads(told)["verdict"]["threshold"] == 0.3
    alerts = {"threshold": 1, "verdict_threshold": 0.3}
    below = client.get("/api/v1/scoring/alerts", params=alerts).json()["agents"]
    assert {agent["verdict_threshold"] for agent in below} == {0.3}


def test_empty_threshold_of_a_form_is_the_published_one(client: TestClient) -> None:
    page = client.get("/", params={"threshold": ""})
    assert page.status_code == 200 and f"of <b>{NEW:g}</b>" in page.text
    assert (
        f"name=threshold placeholder={NEW}" in page.text and "threshold=" not in page.text.split("<form")[0]
    )


@pytest.mark.parametrize("asked", ["nan", "inf", "2", "-0.1", "high"])
def test_threshold_out_of_range_is_refused(client: TestClient, rethought: Database, asked: str) -> None:
    for path in ("/api/v1/scoring/capacity/fleet", "/"):
        assert client.get(path, params={"threshold": asked}).status_code == 422
    result = invoke("explain", "Link", *at(rethought), f"--threshold={asked}")
    assert result.exit_code == 2 and "--threshold" in result.stderr and result.stdout == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.5, "1.5"),
        (-0.1, "-0.1"),
        ("0.8", "'0.8'"),
        (True, "true"),
        (None, "null"),
        (float("nan"), "'NaN'"),
        ([], "[]"),
    ],
)
def test_variable_out_of_range_stops_the_run_before_anything_is_built(
    rethought: Database, marts: psycopg.Connection, value: Any, shown: str
) -> None:
    before = marts.execute(f"select max(scored_at) as newest from {SCHEMA}.fct_capacity_scores").fetchone()
    with pytest.raises(CirisError) as refused:
        score(rethought.profiles_dir, AS_OF, {"ciris_verdict_threshold": value})
    expected = f"Variable ciris_verdict_threshold is {shown}, but must be a number in [0, 1]"
    assert expected in str(refused.value)
    query = f"select max(scored_at) as newest from {SCHEMA}.fct_capacity_scores"
    assert marts.execute(query).fetchone() == before


@pytest.mark.parametrize(
    "asked",
    [
        ("/capacity/fleet", {"bound": 0.6}),
        ("/alerts", {"bound": 0.6}),
    ],
)
def test_parameter_bound_is_unknown(client: TestClient, asked: tuple[str, dict[str, float]]) -> None:
    path, parameters = asked
    answer = client.get(f"/api/v1/scoring{path}", params=parameters)
    assert answer.status_code == 422 and "'bound' is no parameter here" in answer.json()["detail"]
