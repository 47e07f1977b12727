"""Tests of the verdict's threshold: it is published, kept with final rows, and shown by all readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.rows import dict_row

from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.serve.api.app import create_app
from ciris_scoring.serve.api.settings import Settings
from command_line import at, invoke
from conftest import REPOSITORY, Database
from pipeline import score
from serving import opened

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
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


def test_verdict_follows_from_the_published_probability(marts: psycopg.Connection) -> None:
    rows = [row for row in published(marts, FINAL).values() if row["score_status"] == "final"]
    for row in rows:
        probability = row["probability_at_threshold"]
        assert (row["verdict"] == "withhold") == (probability < 0.45), row
        assert row["verdict"] != "grant" or probability >= 0.74, row
        assert row["grant_score"] <= row["capacity_score_steady"] <= row["withhold_score"], row
    assert {"grant", "withhold"} <= {row["verdict"] for row in rows}
