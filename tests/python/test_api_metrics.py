"""Tests of /metrics: values compared with the marts, and counts of requests by route and status."""

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.api.database import Database as ServedDatabase
from conftest import Database
from serving import SCORING, asking

Samples = dict[tuple[str, ...], float]


@pytest.fixture
def client(served: ServedDatabase) -> Iterator[TestClient]:
    with asking(served) as client:
        yield client


@pytest.fixture(scope="module")
def marts(scored_sample: Database) -> Iterator[psycopg.Connection]:
    with scored_sample.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        yield connection


def metrics(client: TestClient) -> dict[str, Samples]:
    """Return the values by metric and labels, with labels in the order of their names."""
    answer = client.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    found: dict[str, Samples] = {}
    for sample in (sample for family in families for sample in family.samples):
        labels = tuple(value for _, value in sorted(sample.labels.items()))
        found.setdefault(sample.name.removeprefix("ciris_scoring_"), {})[labels] = sample.value
    return found


def test_metrics_have_age_outcome_and_version(client, marts):
    [[scored_at, as_of]] = marts.execute(
        "select max(scored_at), max(as_of) from fct_capacity_scores"
    ).fetchall()
    before = datetime.now(UTC)
    found = metrics(client)
    after = datetime.now(UTC)
    for name, moment in (("publication_age_seconds", scored_at), ("data_age_seconds", as_of)):
        assert (before - moment).total_seconds() <= found[name][()] <= (after - moment).total_seconds()
    assert found["marts_readable"] == {(): 1} and found["build_info"] == {(version("ciris-scoring"),): 1}
    outcomes = {"published": 1, "failed": 0, "interrupted": 0, "unfinished": 0}
    assert found["last_run"] == {(outcome,): value for outcome, value in outcomes.items()}
    assert len(found["agents"]) == 10  # five categories and two windows; categories without agents are 0


def test_requests_are_counted_by_route_and_status(client):
    for path in ("capacity/Link", "capacity/Link", "capacity/Echo", "capacity/nobody", "alerts?x=1"):
        client.get(f"{SCORING}/{path}")
    client.head(f"{SCORING}/capacity/Link")
    for path in ("/", "/nothing", "/a" * 100):
        client.get(path)
    client.get("/healthz", headers={"Host": "evil.example"})
    assert metrics(client)["http_requests_total"] == {
        (f"{SCORING}/capacity/{{agent_id:path}}", "200"): 4,
        (f"{SCORING}/capacity/{{agent_id:path}}", "404"): 1,
        (f"{SCORING}/alerts", "422"): 1,
        ("/", "200"): 1,
        ("none", "404"): 2,
        ("none", "421"): 1,
    }
    seconds = metrics(client)
    assert seconds["http_request_seconds_count"][(f"{SCORING}/capacity/{{agent_id:path}}",)] == 5
    assert seconds["http_request_seconds_sum"][(f"{SCORING}/alerts",)] > 0


def test_metrics_of_the_server_remain_without_database(client, monkeypatch):
    client.get("/healthz")
    monkeypatch.setattr(client.app.state.answers.database, "_pool", None)
    found = metrics(client)
    assert found["marts_readable"] == {(): 0} and "agents" not in found
    assert found["http_requests_total"] == {("/healthz", "200"): 1}
