"""Tests of the API on the sample: answers compared with the marts, clients of the lens, malformed and hostile
requests, rights of the role, and loss of the database.
"""

from __future__ import annotations

import compileall
import contextlib
import csv
import html
import http.client
import io
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
import schemathesis
import yaml
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from psycopg import sql
from psycopg.rows import dict_row
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as openapi_checks
from starlette.testclient import TestClient

import api_examples
import command_line
from ciris_scoring.basics import decimals
from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.kinds import ALERTS, FLAGS, KINDS
from ciris_scoring.basics.project import Project, load_project
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA, Server
from ciris_scoring.lab.simulation.sample import load_sample, sample_info
from ciris_scoring.marts.agent import NON_EXEMPT_ACTIONS
from ciris_scoring.marts.evidence import RULES
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.publication import read_publication
from ciris_scoring.serve.api import answers as answers_module
from ciris_scoring.serve.api import endpoints, guard
from ciris_scoring.serve.api import pages as api_pages
from ciris_scoring.serve.api.app import create_app
from ciris_scoring.serve.api.database import Database as ServedDatabase
from ciris_scoring.serve.api.guard import MOST_CLIENTS, SECURITY_HEADERS, Limits, client_of
from ciris_scoring.serve.api.lens import LENS_NAMES, SORTED_BY
from ciris_scoring.serve.api.problems import TYPE, Problem
from ciris_scoring.serve.api.settings import Settings, settings_of
from ciris_scoring.serve.explain import explain
from conftest import REPOSITORY, Database, fresh_database
from pipeline import score
from serving import KEY, LINK, SCORING, asking, opened, running

AS_OF = datetime.fromisoformat(sample_info()["as_of"])
MORPHEUS, ECHO, PARADOX = "da3f08513aac60cf", "e835d1c17f9256da", "f362089214419dc9"
READER = "ciris_api"
FACTORS = {"C": "c_score", "I_int": "i_int_score", "R": "r_score", "I_inc": "i_inc_score", "S": "s_score"}
# The tests change what is published, so every request must look for a new publication.
SETTINGS = Settings(version_seconds=0)


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A separate server, which the tests stop and start."""
    with embedded.throw_away() as started:
        yield started


@pytest.fixture(scope="module")
def sample(own_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The scored sample. The role READER has the rights on the marts that docs/serving.md grants."""
    with fresh_database(own_server, tmp_path_factory.mktemp("api")) as database:
        with database.connect() as connection:
            connection.execute(f"create role {READER} login")
            load_sample(connection)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CIRIS_MART_READERS", READER)
            score(database.profiles_dir, sample_info()["as_of"])
        with database.connect() as connection:
            connection.execute(f"grant usage on schema {SCHEMA} to {READER}")
            connection.execute(f"revoke temporary on database {database.name} from public")
        yield database


@pytest.fixture(scope="module")
def project(sample: Database, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project with a profile of the read-only role."""
    folder = tmp_path_factory.mktemp("reader")
    profile = (sample.profiles_dir / "profiles.yml").read_text()
    (folder / "profiles.yml").write_text(re.sub("user: .*", f"user: {READER}", profile))
    return load_project(REPOSITORY, folder)


@pytest.fixture(scope="module")
def served(project: Project) -> Iterator[ServedDatabase]:
    with opened(project, 4) as database:
        yield database


@pytest.fixture(scope="module")
def app(served: ServedDatabase) -> FastAPI:
    return create_app(served, SETTINGS)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def marts(sample: Database) -> Iterator[psycopg.Connection]:
    """Connection of the owner with the marts' schema in the search path."""
    with sample.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        connection.row_factory = dict_row
        yield connection


def get(client: TestClient, path: str, **parameters: Any) -> Any:
    """Return an answer with status 200, without its `cache` member."""
    response = client.get(SCORING + path, params=parameters)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert set(answer.pop("cache")) == {"cached", "ttl_seconds"}
    return answer


def refused(client: TestClient, path: str, status: int, kind: str) -> dict[str, Any]:
    """Return the problem document of a request that must be refused."""
    response = client.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert (document["type"], document["status"]) == (TYPE + kind, status)
    assert document["detail"] and document["title"]
    return document


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def time_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)


def lens_name(component: str | None) -> str | None:
    return LENS_NAMES.get(component, component)


OF_POINT = (
    *("capacity_score_low", "capacity_score_high", "capacity_score_steady", "capacity_score_steady_low"),
    *(
        "capacity_score_steady_high",
        "fragility_index",
        "category",
        "score_status",
        "confidence",
        "weakest_factor",
    ),
)
"""Members of a point of a history that have the same name in the marts."""
OF_SCORE = (
    *("agent_id_hash", "category_steady", "category_steady_certainty", "steady_missing_because"),
    *("capacity_score_geometric", "category_certainty", *OF_POINT),
)
"""Members of a score that have the same name in the marts."""


def expected_since(
    marts: psycopg.Connection, row: dict[str, Any], relation: str, name: str
) -> datetime | None:
    """Return the first of the consecutive as-ofs with an alert or red flag, up to the row's as-of; None if it is the
    oldest."""
    column = {"fct_capacity_alerts": "kind", "fct_record_signs": "red_flag"}[relation]
    as_ofs = marts.execute(
        f"""
        select
            fleet.as_of,
            exists (
                select 1 from {relation} as raised
                where raised.as_of = fleet.as_of and raised.window_days = fleet.window_days
                and raised.agent_id_hash = %s and raised.{column} = %s
            ) as stood
        from fct_fleet_capacity as fleet
        where window_days = %s and as_of <= %s
        order by as_of desc
        """,
        [row["agent_id_hash"], name, row["window_days"], row["as_of"]],
    ).fetchall()
    standing = list(itertools.takewhile(lambda one: one["stood"], as_ofs))
    return None if len(standing) == len(as_ofs) else standing[-1]["as_of"]


def expected_verdict(
    marts: psycopg.Connection, row: dict[str, Any], threshold: float = 0.6
) -> dict[str, Any]:
    """Return the verdict of a row of fct_capacity_scores by the rule of docs/deciding.md."""
    key = [row["agent_id_hash"], row["as_of"], row["window_days"]]
    where = "where agent_id_hash = %s and as_of = %s and window_days = %s"
    found = marts.execute(
        f"""
        select 'fct_capacity_alerts' as relation, kind as name, severity from fct_capacity_alerts {where}
        union all
        select distinct 'fct_record_signs', red_flag, 'red_flag' from fct_record_signs {where}
        order by 1, severity, name
        """,
        [*key, *key],
    ).fetchall()
    raised = [
        {
            "name": one["name"],
            "severity": one["severity"],
            "since": time_or_none(expected_since(marts, row, one["relation"], one["name"])),
            "reviews": one["name"] != "low_capacity" or one["severity"] == "critical",
        }
        for one in found
    ]
    granted_to, withheld_above = row["grant_score"], row["withhold_score"]
    if row["capacity_score"] is None or row["score_status"] == "provisional":
        verdict = "wait"
    elif withheld_above < threshold:
        verdict = "withhold"
    elif any(one["reviews"] for one in raised):
        verdict = "review"
    else:
        verdict = "grant" if granted_to >= threshold else "keep"
    probability = row["probability_at_threshold"] if threshold == row["verdict_threshold"] else ANY
    if isinstance(probability, float):
        probability = pytest.approx(probability, abs=2e-7)
    return {
        "verdict": verdict,
        "verdict_reason": ANY,
        "verdict_threshold": threshold,
        "probability_at_threshold": probability,
        "raised": raised,
    }


def expected_score(marts: psycopg.Connection, row: dict[str, Any]) -> dict[str, Any]:
    """Return the API's answer for a row of fct_capacity_scores, computed with other queries than those of the API."""
    key = {name: row[name] for name in ("agent_id_hash", "as_of", "window_days")}
    components: dict[str, dict[str, float | None]] = {factor: {} for factor in FACTORS}
    for part in marts.execute(
        "select factor, component, component_value from fct_factor_components where agent_id_hash = %(agent_id_hash)s"
        " and as_of = %(as_of)s and window_days = %(window_days)s",
        key,
    ):
        components[part["factor"]][lens_name(part["component"])] = part["component_value"]
    assert all(components.values())
    start = row["as_of"] - timedelta(days=row["window_days"])
    n_non_exempt = marts.execute(
        "select count(*) as n from fct_trace_checks where agent_id_hash = %s and is_counted and traced_at >= %s"
        " and traced_at < %s and selected_action in ('SPEAK', 'TOOL', 'MEMORIZE', 'FORGET')",
        [row["agent_id_hash"], start, row["as_of"]],
    ).fetchone()["n"]
    return {
        **{name: row[name] for name in OF_SCORE},
        **expected_verdict(marts, row),
        "agent_name": row["agent_name"],
        "composite_score": row["capacity_score"],
        "interval_driver": lens_name(row["interval_driver"]),
        "missing_traces": max(0, 30 - row["n_traces"]),
        "unmeasured_components": [lens_name(name) for name in row["unmeasured_components"]],
        "factors": {
            factor: {
                "score": row[column],
                "score_low": row[f"{column}_low"],
                "score_high": row[f"{column}_high"],
                "components": components[factor],
                "trace_count": row["n_traces"],
                "confidence": row["confidence"],
            }
            for factor, column in FACTORS.items()
        },
        "metadata": {
            "as_of": time_text(row["as_of"]),
            "window_days": row["window_days"],
            "window_start": time_text(start),
            "window_end": time_text(row["as_of"]),
            "total_traces": row["n_traces"],
            "non_exempt_traces": n_non_exempt,
            "parameter_set_id": row["parameter_set_id"],
            "scored_at": time_text(row["scored_at"]),
        },
    }


def assert_verdicts_of_the_mart(agents: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Check that verdicts and reasons for the default threshold are those of the mart."""
    for agent, row in zip(agents, rows, strict=True):
        reviewing = sorted(one["name"] for one in agent["raised"] if one["reviews"])
        assert (agent["verdict"], reviewing) == (row["verdict"], sorted(row["review_for"])), row["agent_name"]


def scores_at(marts: psycopg.Connection, window_days: int) -> list[dict[str, Any]]:
    return marts.execute(
        "select * from fct_capacity_scores where as_of = %s and window_days = %s order by capacity_score desc",
        [AS_OF, window_days],
    ).fetchall()


# --- every endpoint, compared with the marts -------------------------------------------------------------------------


@pytest.mark.parametrize("window_days", [7, 30])
def test_fleet_equals_the_marts(client, marts, window_days):
    fleet = get(client, "/capacity/fleet", window_days=window_days)
    rows = scores_at(marts, window_days)
    assert fleet["agents"] == [expected_score(marts, row) for row in rows]
    assert_verdicts_of_the_mart(fleet["agents"], rows)
    assert fleet["agent_count"] == fleet["total_agent_count"] == len(rows) == 14
    assert fleet["unscored"] == []
    assert (fleet["as_of"], fleet["window_days"]) == (time_text(AS_OF), window_days)
    totals = marts.execute(
        "select * from fct_fleet_capacity where as_of = %s and window_days = %s", [AS_OF, window_days]
    ).fetchone()
    assert fleet["summary"] == {
        **{name: totals[f"n_{name}"] for name in ("high_capacity", "healthy", "moderate", "high_fragility")},
        **{name: totals[f"n_{name}"] for name in ("final", "provisional", "insufficient_data")},
        **{
            name: totals[name]
            for name in ("mean_capacity_score", "median_capacity_score", "min_capacity_score")
        },
        "verdicts": {
            name: sum(expected_verdict(marts, row)["verdict"] == name for row in rows)
            for name in ("review", "withhold", "keep", "wait", "grant")
        },
    }
    # The answer for one agent equals its entry in the fleet.
    for agent in fleet["agents"]:
        assert get(client, f"/capacity/{agent['agent_id_hash']}", window_days=window_days) == {
            **agent,
            "agent_note": None,
        }


def test_the_fleet_is_filtered_sorted_and_paged(client, marts):
    rows = scores_at(marts, 7)
    filtered = get(client, "/capacity/fleet", category="healthy")
    assert [a["agent_id_hash"] for a in filtered["agents"]] == [
        row["agent_id_hash"] for row in rows if row["category"] == "healthy"
    ]
    assert filtered["summary"]["high_fragility"] == 6
    [sprout] = get(client, "/capacity/fleet", status="provisional")["agents"]
    assert sprout["agent_name"] == "Sprout"
    for name in SORTED_BY:
        for order in (name, f"-{name}"):
            agents = get(client, "/capacity/fleet", sort=order)["agents"]
            values = [
                a["factors"][name]["score"] if name in FACTORS else {**a, **a["metadata"]}[name]
                for a in agents
            ]
            assert values == sorted(values, reverse=order.startswith("-")), order
            assert len(agents) == 14
    for threshold in (0.3, 0.6, 0.85):
        for verdict in ("review", "withhold", "keep", "wait", "grant"):
            found = get(client, "/capacity/fleet", verdict=verdict, threshold=threshold)
            assert [(a["agent_id_hash"], a["verdict"]) for a in found["agents"]] == [
                (row["agent_id_hash"], verdict)
                for row in rows
                if expected_verdict(marts, row, threshold)["verdict"] == verdict
            ]
    [link] = get(client, "/capacity/fleet", raised="broken_chain")["agents"]
    assert link["agent_name"] == "Link"
    assert link["verdict_reason"] == "0.6 lies inside 0.45 to 0.68; broken chain"
    linked = list(all_pages(client, "/capacity/fleet", limit=5, status="final"))
    assert [len(page["agents"]) for page in linked] == [5, 5, 3]
    pages = [get(client, "/capacity/fleet", limit=5, offset=offset) for offset in (0, 5, 10, 15)]
    assert [page["agent_count"] for page in pages] == [5, 5, 4, 0]
    assert {page["total_agent_count"] for page in pages} == {14}
    assert [a["agent_id_hash"] for page in pages for a in page["agents"]] == [
        row["agent_id_hash"] for row in rows
    ]


def all_pages(client: TestClient, path: str, **parameters: Any) -> Iterator[dict[str, Any]]:
    """Yield a page and all following pages."""
    address = f"{SCORING}{path}"
    page = get(client, path, **parameters)
    while True:
        yield page
        if page["next"] is None:
            return
        page = client.get(address + page["next"]).json()


def republish(marts: psycopg.Connection) -> None:
    """Add a published run to the run log."""
    enter(marts, "published")


def enter(marts: psycopg.Connection, outcome: str | None) -> str:
    """Add a run to the run log and return its id. Without an outcome the run is unfinished."""
    run_id = str(uuid4())
    marts.execute(
        f"insert into {SCHEMA}_intermediate.int_runs (run_id, started_at, command, outcome)"
        " values (%s, now(), 'run', %s)",
        [run_id, outcome],
    )
    return run_id


@contextlib.contextmanager
def changed(marts: psycopg.Connection, table: str, statement: str, values: list[Any]) -> Iterator[None]:
    """Change a mart and restore it afterwards."""
    copy = sql.Identifier(f"before_{table}")
    name = sql.Identifier(table)
    marts.execute(sql.SQL("create table {} as select * from {}").format(copy, name))
    try:
        marts.execute(statement, values)
        republish(marts)
        yield
    finally:
        marts.execute(
            sql.SQL("truncate {0}; insert into {0} select * from {1}; drop table {1}").format(name, copy)
        )
        republish(marts)


def test_agents_without_a_score_are_listed_as_unscored(client, marts):
    too_few = """
        update fct_capacity_scores
        set capacity_score = null, capacity_score_low = null, capacity_score_high = null,
            capacity_score_geometric = null, fragility_index = null, category = null, category_certainty = null,
            interval_driver = null, score_status = 'insufficient_data', n_traces = 12, n_replayed = 12, n_signals = 12,
            chain_gaps = 0, chain_rewinds = 0, chain_duplicates = 0
        where agent_id_hash = %s and as_of = %s and window_days = 7
    """
    gone = "delete from fct_capacity_scores where agent_id_hash = %s and as_of = %s and window_days = 7"
    with changed(marts, "fct_capacity_scores", too_few, [LINK, AS_OF]):
        row = marts.execute(
            "select * from fct_capacity_scores where agent_id_hash = %s and as_of = %s and window_days = 7",
            [LINK, AS_OF],
        ).fetchone()
        fleet = get(client, "/capacity/fleet")
        assert LINK not in {agent["agent_id_hash"] for agent in fleet["agents"]}
        [lacking] = fleet["unscored"]
        assert (lacking["agent_id_hash"], lacking["agent_name"]) == (LINK, "Link")
        assert (lacking["score_status"], lacking["n_traces"], lacking["missing_traces"]) == (
            "insufficient_data",
            12,
            18,
        )
        one = get(client, "/capacity/Link")
        assert one == {**expected_score(marts, row), "agent_note": None}
        assert one["composite_score"] is None and one["missing_traces"] == 18
        said = get(client, "/factors/Link")["weighs_most"]
        assert said["words"] == "No score yet: 12 of the 30 traces that a score needs."
        marts.execute(gone, [MORPHEUS, AS_OF])
        republish(marts)
        unscored = {agent["agent_id_hash"]: agent for agent in get(client, "/capacity/fleet")["unscored"]}
        assert unscored[MORPHEUS]["score_status"] == "no_traces"
        assert unscored[MORPHEUS]["missing_traces"] == 30
        assert set(unscored) == {LINK, MORPHEUS}
        only = get(client, "/capacity/fleet", status="no_traces")
        assert [agent["agent_id_hash"] for agent in only["unscored"]] == [MORPHEUS]
        assert only["total_unscored_count"] == 1
        pages = list(all_pages(client, "/capacity/fleet", limit=1))
        assert [agent["agent_id_hash"] for page in pages for agent in page["unscored"]] == list(unscored)
        assert len(pages) == 12 and {page["total_unscored_count"] for page in pages} == {2}
        raised = get(client, "/capacity/fleet", raised="broken_chain")
        assert LINK in {agent["agent_id_hash"] for agent in raised["unscored"]}
        assert MORPHEUS not in {agent["agent_id_hash"] for agent in raised["unscored"]}
        assert only["agents"] == [] and get(client, "/capacity/fleet", category="healthy")["unscored"] == []
        # The agent's newest score is now a day older.
        assert get(client, f"/capacity/{MORPHEUS}")["metadata"]["as_of"] == time_text(
            AS_OF - timedelta(days=1)
        )
    assert get(client, "/capacity/fleet")["unscored"] == []
    begun = marts.execute(
        "select agent_id_hash from dim_agents where first_traced_at < %s", [AS_OF - timedelta(days=40)]
    ).fetchall()
    then = get(client, "/capacity/fleet", as_of=f"{AS_OF - timedelta(days=40):%Y-%m-%d}")
    known = {agent["agent_id_hash"] for agent in (*then["agents"], *then["unscored"])}
    assert known == {row["agent_id_hash"] for row in begun} and len(known) < 14


def alert_key(alert: dict[str, Any]) -> tuple[str, int, str]:
    return alert["agent_id_hash"], alert["window_days"], alert["kind"]


def expected_alerts(marts: psycopg.Connection, as_of: datetime, window_days: int = 7) -> list[dict[str, Any]]:
    """Return the API's answer for the alerts of a window at an as-of."""
    rows = marts.execute(
        "select agent_id_hash, agent_name, as_of, window_days, kind, severity, value, threshold, message"
        " from fct_capacity_alerts where as_of = %s and window_days = %s",
        [as_of, window_days],
    ).fetchall()
    alerts = [
        {
            **row,
            "as_of": time_text(row["as_of"]),
            "since": time_or_none(expected_since(marts, row, "fct_capacity_alerts", row["kind"])),
        }
        for row in rows
    ]
    return sorted(alerts, key=alert_key)


# --- earlier as-ofs --------------------------------------------------------------------------------------------------

EARLIER = datetime(2026, 6, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    ["2026-06-10", "2026-06-10T00:00:00Z", "2026-06-10T02:00:00+02:00"],
    ids=["day", "time", "offset"],
)
def test_earlier_score_equals_the_marts(client, marts, written):
    rows = marts.execute(
        "select * from fct_capacity_scores where as_of = %s and window_days = 7 order by capacity_score desc",
        [EARLIER],
    ).fetchall()
    fleet = get(client, "/capacity/fleet", as_of=written)
    scored = [row for row in rows if row["capacity_score"] is not None]
    assert fleet["as_of"] == time_text(EARLIER) and len(scored) >= 12
    assert fleet["agents"] == [expected_score(marts, row) for row in scored]
    assert_verdicts_of_the_mart(fleet["agents"], scored)
    totals = marts.execute(
        "select * from fct_fleet_capacity where as_of = %s and window_days = 7", [EARLIER]
    ).fetchone()
    assert fleet["summary"]["mean_capacity_score"] == totals["mean_capacity_score"]
    for row in scored:
        expected = {**expected_score(marts, row), "agent_note": None}
        assert get(client, f"/capacity/{row['agent_id_hash']}", as_of=written) == expected
        factors = get(client, f"/factors/{row['agent_id_hash']}", as_of=written)
        assert factors["metadata"]["as_of"] == time_text(EARLIER)
        assert factors["composite_score"] == expected["composite_score"]
        assert sum(
            part["points_lost"] for part in factors["weighs_most"]["loss_components"]
        ) == pytest.approx(1 - row["capacity_score"])
    alerts = get(client, "/alerts", as_of=written, threshold=0.6)
    low = [row["agent_id_hash"] for row in reversed(scored) if row["capacity_score"] < 0.6]
    assert [agent["agent_id_hash"] for agent in alerts["agents"]] == low
    assert alerts["as_of"] == time_text(EARLIER)
    assert sorted(alerts["alerts"], key=alert_key) == expected_alerts(marts, EARLIER) != []
    assert get(client, "/alerts", as_of="2026-06-15") == {
        **get(client, "/alerts"), "timestamp": ANY
    }  # fmt: skip


def test_as_of_without_a_score_is_refused_with_nearest_as_ofs(client, marts):
    published = [
        row["as_of"]
        for row in marts.execute("select as_of from fct_fleet_capacity where window_days = 7 order by as_of")
    ]
    assert len(published) > 30
    for path in (
        "capacity/fleet",
        "capacity/Link",
        "factors/Link",
        "alerts",
        "evidence/Link?component=I_chain",
    ):
        separator = "&" if "?" in path else "?"
        problem = refused(client, f"{SCORING}/{path}{separator}as_of=2026-06-10T07:00:00Z", 404, "no-score")
        assert "2026-06-10T07:00:00Z" in problem["detail"]
        assert "Nearest: 2026-06-10T00:00:00Z and 2026-06-11T00:00:00Z." in problem["detail"]
        assert problem["as_ofs"] == [time_text(EARLIER + timedelta(days=day)) for day in range(-4, 6)]
    problem = refused(client, f"{SCORING}/capacity/fleet?as_of=2020-01-01", 404, "no-score")
    assert f"Scores exist for {len(published)} as-ofs, {published[0]:%Y-%m-%d}" in problem["detail"]
    assert "to 2026-06-15T00:00:00Z" in problem["detail"]
    assert problem["as_ofs"] == [time_text(as_of) for as_of in published[:10]]


def test_pages_show_an_earlier_as_of(client, marts):
    fleet = client.get("/?as_of=2026-06-10")
    assert fleet.status_code == 200
    assert "as of <time datetime=2026-06-10T00:00:00Z>" in fleet.text
    reasons = [a["verdict_reason"] for a in get(client, "/capacity/fleet", as_of="2026-06-10")["agents"]]
    assert "0.11 to 0.32 lies below 0.6; falling since 9 June" in reasons
    assert all(html.escape(reason) in fleet.text for reason in reasons)
    for window_days in (7, 30):
        page = client.get(f"/alerts?as_of=2026-06-10&window_days={window_days}").text
        alerts = expected_alerts(marts, EARLIER, window_days)
        assert all(html.escape(alert["message"]) in page for alert in alerts)
        days = [one["since"][:10] for one in alerts if one["since"]]
        assert sorted(re.findall(r"<small>(new|since [\d-]+)</small>", page)) == sorted(
            "new" if day == "2026-06-10" else f"since {day}" for day in days
        )
    assert '<a href="./?window_days=7">newest</a>' in fleet.text
    link = f'href="agent?agent_id=hash%3A{LINK}&amp;window_days=7&amp;as_of=2026-06-10T00%3A00%3A00Z"'
    assert link in fleet.text
    agent = client.get("/" + link[6:-1].replace("&amp;", "&"))
    assert "as of <time datetime=2026-06-10T00:00:00Z>" in agent.text
    score_then = get(client, "/capacity/Link", as_of="2026-06-10")["composite_score"]
    assert decimals.score(score_then) in agent.text
    assert (
        "as_of=2026-06-10T00%3A00%3A00%2B00%3A00"
        in client.get("/agents/Link?as_of=2026-06-10T00:00:00%2B00:00").url.query.decode()
    )
    for path in ("/?as_of=2026-06-10T07:00", "/agent?agent_id=Link&as_of=2026-06-10T07:00"):
        page = client.get(path)
        assert page.status_code == 404
        assert "Nearest: 2026-06-10T00:00:00Z and 2026-06-11T00:00:00Z." in page.text
        assert "Back to the fleet" in page.text
        assert "as_of=2026-06-11T00%3A00%3A00Z" in page.text
    assert client.get("/?as_of=9999-99-99").status_code == 422


def test_factors_are_explained_from_the_marts(client, marts):
    for row in scores_at(marts, 30):
        answer = get(client, f"/factors/{row['agent_id_hash']}", window_days=30)
        weighs_most = answer.pop("weighs_most")
        assert answer["metadata"].pop("non_exempt_actions") == list(NON_EXEMPT_ACTIONS)
        for name, factor in answer["factors"].items():
            assert factor.pop("name") and factor.pop("description")
            assert factor.pop("formula").startswith(f"{name} = ")
            assert bool(factor.pop("notes", None)) == (name in ("R", "I_inc"))
        assert answer == {**expected_score(marts, row), "agent_note": None}
        parts = marts.execute(
            "select factor, loss_component, loss, points_lost, rank from fct_score_attribution where agent_id_hash = %s"
            " and as_of = %s and window_days = 30 order by rank",
            [row["agent_id_hash"], AS_OF],
        ).fetchall()
        assert weighs_most["loss_components"] == [
            {**part, "loss_component": lens_name(part["loss_component"])} for part in parts
        ]
    words = get(client, "/factors/Link")["weighs_most"]["words"]
    assert words == (
        "Of the 0.461 missing from 1, broken chain of evidence (I_chain) cost 0.205, deferrals judged poor "
        "(Q_deferral) 0.135."
    )


def test_history_equals_the_marts(client, marts):
    def points(first: datetime, last: datetime) -> list[dict[str, Any]]:
        rows = marts.execute(
            "select * from fct_capacity_scores where agent_id_hash = %s and window_days = 7 and as_of between %s and %s"
            " order by as_of",
            [LINK, first, last],
        ).fetchall()
        return [
            {
                **{name: row[name] for name in (*OF_POINT, "agent_name", "n_traces", "parameter_set_id")},
                "as_of": time_text(row["as_of"]),
                "composite_score": row["capacity_score"],
                "factors": {factor: row[column] for factor, column in FACTORS.items()},
                "scored_at": time_text(row["scored_at"]),
            }
            for row in rows
        ]

    default = get(client, "/history/Link")
    assert default["history"] == points(AS_OF - timedelta(days=30), AS_OF)
    assert (default["period_days"], default["interval"], len(default["history"])) == (30, "daily", 31)
    assert (default["from"], default["to"]) == (time_text(AS_OF - timedelta(days=30)), time_text(AS_OF))
    assert default["current_score"] == default["history"][-1]["composite_score"]
    assert get(client, "/history/Link", days=400)["history"] == points(AS_OF - timedelta(days=400), AS_OF)
    some = get(client, "/history/Link", **{"from": "2026-06-01", "to": "2026-06-03T12:00:00+02:00"})
    assert some["history"] == points(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 3, tzinfo=UTC))
    assert some["period_days"] == 3
    pages = list(all_pages(client, "/history/Link", **{"from": "2026-05-20", "days": 7}))
    assert len(pages) == 4
    assert [one for page in pages for one in page["history"]] == points(
        datetime(2026, 5, 20, tzinfo=UTC), AS_OF
    )
    assert (
        get(client, "/history/Link", interval="hourly")["history"] == default["history"]
    )  # scores are daily

    response = client.get(
        f"{SCORING}/history/Link?days=3", headers={"Accept": "text/csv, application/json;q=0.5"}
    )
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    in_json = get(client, "/history/Link", days=3)["history"]
    assert len(rows) == 4
    for row, point in zip(rows, in_json, strict=True):
        assert row["as_of"] == point["as_of"] and row["agent_name"] == "Link"
        assert float(row["composite_score"]) == point["composite_score"]
        assert float(row["capacity_score_steady"]) == point["capacity_score_steady"]
        assert {factor: float(row[factor]) for factor in FACTORS} == point["factors"]


def test_a_history_after_the_newest_as_of_is_refused(client):
    assert (
        "which is after to, 2026-06-01T00:00:00Z"
        in (
            refused(client, f"{SCORING}/history/Link?from=2026-06-02&to=2026-06-01", 422, "bad-parameter")[
                "detail"
            ]
        )
    )
    for query in ("from=2026-06-15T00:00:01Z", "from=9999-12-01&to=9999-12-31T23:59:59.999999"):
        problem = refused(client, f"{SCORING}/history/Link?{query}", 404, "no-score")
        assert problem["as_ofs"] == [time_text(AS_OF)]
    assert [one["as_of"] for one in get(client, "/history/Link", **{"from": "2026-06-15"})["history"]] == [
        time_text(AS_OF)
    ]


def test_filters_allow_every_alert_and_red_flag(client, marts):
    """The allowed values of filters are those of the marts, and each has a title."""
    parameters = client.get("/openapi.json").json()["paths"]
    for path, name, kinds in (
        ("/alerts", "kind", ALERTS),
        ("/red-flags", "red_flag", FLAGS),
        ("/capacity/fleet", "raised", KINDS),
    ):
        [asked] = [one for one in parameters[SCORING + path]["get"]["parameters"] if one["name"] == name]
        assert {
            value for schema in asked["schema"]["anyOf"] for value in schema.get("enum", ())
        } == kinds.keys()
    described = yaml.safe_load((REPOSITORY / "models/marts/_marts__models.yml").read_text())["models"]
    columns = {
        (model["name"], column["name"]): column["description"]
        for model in described
        for column in model["columns"]
    }
    for names, column in (
        (ALERTS, columns["fct_capacity_alerts", "kind"]),
        (FLAGS, columns["fct_record_signs", "red_flag"]),
    ):
        assert set(names) <= set(re.findall("[a-z_]+", column))
    for kind in ALERTS:
        assert {one["kind"] for one in get(client, "/alerts", kind=kind)["alerts"]} <= {kind}


def test_name_that_looks_like_a_formula_is_quoted_in_csv(client, marts):
    statement = "update fct_capacity_scores set agent_name = '=1+1' where agent_id_hash = %s"
    with changed(marts, "fct_capacity_scores", statement, [LINK]):
        text = client.get(f"{SCORING}/history/{LINK}?days=1", headers={"Accept": "text/csv"}).text
    assert {row["agent_name"] for row in csv.DictReader(io.StringIO(text))} == {"'=1+1"}


def test_history_without_a_score_is_refused_as_json_and_csv(client, marts):
    statement = "delete from fct_capacity_scores where agent_id_hash = %s and window_days = 7"
    with changed(marts, "fct_capacity_scores", statement, [LINK]):
        refused(client, f"{SCORING}/history/{LINK}", 404, "no-score")
        response = client.get(f"{SCORING}/history/{LINK}", headers={"Accept": "text/csv"})
        assert (response.status_code, response.json()["type"]) == (404, TYPE + "no-score")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (None, False),
        ("*/*", False),
        ("text/csv", True),
        ("TEXT/CSV", True),
        ("text/*", True),
        ("text/csv;q=0.4, application/json;q=0.5", False),
        ("text/csv, */*;q=0.1", True),
        ("text/csv;q=x", False),
        ("text/html, */*", False),
    ],
)
def test_csv_is_chosen_by_quality_in_accept_header(accept, wanted):
    assert answers_module.prefers_csv(accept) is wanted


def test_alerts_equal_the_marts(client, marts):
    answer = get(client, "/alerts")
    low = [row for row in scores_at(marts, 7) if row["capacity_score"] < 0.3][::-1]
    assert [agent["agent_id_hash"] for agent in answer["agents"]] == [row["agent_id_hash"] for row in low]
    assert answer["alert_count"] == len(low) == 6 and answer["threshold"] == 0.3
    for agent, row in zip(answer["agents"], low, strict=True):
        whole = expected_score(marts, row)
        assert agent.pop("non_exempt_traces") == whole["metadata"]["non_exempt_traces"]
        assert agent == {name: whole[name] for name in agent}
        assert {"agent_name", "composite_score", "category", "fragility_index", "weakest_factor"} <= set(
            agent
        )
    assert sorted(answer["alerts"], key=alert_key) == expected_alerts(marts, AS_OF)
    critical = get(client, "/alerts", kind="low_capacity", severity="critical")["alerts"]
    assert critical == [
        one for one in answer["alerts"] if (one["kind"], one["severity"]) == ("low_capacity", "critical")
    ]
    of_month = get(client, "/alerts", window_days=30)["alerts"]
    assert sorted(of_month, key=alert_key) == expected_alerts(marts, AS_OF, 30)
    assert len(answer["alerts"]) == answer["total_alert_count"] == 8
    assert answer["total_agent_count"] == 6
    assert get(client, "/alerts", threshold=1, window_days=30)["alert_count"] == 14
    assert get(client, "/alerts", threshold=0)["agents"] == []


@pytest.mark.parametrize("threshold", [0.3, 0, 1])
def test_next_leads_through_both_lists_of_the_alerts(client, threshold):
    """The sample has 8 alerts. It has 6 agents below 0.3, none below 0 and 14 below 1, so either list can be the
    longer one."""
    whole = get(client, "/alerts", threshold=threshold)
    assert (len(whole["agents"]), len(whole["alerts"])) == ({0.3: 6, 0: 0, 1: 14}[threshold], 8)
    for limit in (1, 3, 4, 6, 8, 14, 15):
        pages = list(all_pages(client, "/alerts", threshold=threshold, limit=limit))
        for name, total in (("agents", "total_agent_count"), ("alerts", "total_alert_count")):
            assert [one for page in pages for one in page[name]] == whole[name]
            assert {page[total] for page in pages} == {len(whole[name])}
            assert all(len(page[name]) <= limit for page in pages)
        assert all(page["alert_count"] == len(page["agents"]) for page in pages)
        assert len(pages) == -(-max(len(whole["agents"]), len(whole["alerts"])) // limit)
    critical = list(all_pages(client, "/alerts", kind="low_capacity", threshold=threshold, limit=2))
    assert [one for page in critical for one in page["alerts"]] == [
        one for one in whole["alerts"] if one["kind"] == "low_capacity"
    ]


def test_alert_has_first_of_its_consecutive_as_ofs(client, marts):
    """`since` is the first of the consecutive as-ofs up to the requested one."""
    gap = "delete from fct_capacity_alerts where agent_id_hash = %s and window_days = 7 and as_of = %s"
    with changed(marts, "fct_capacity_alerts", gap, [LINK, AS_OF - timedelta(days=4)]):
        [chain] = get(client, "/alerts", kind="broken_chain", severity="critical", limit=1)["alerts"]
        assert chain["since"] == time_text(AS_OF - timedelta(days=3))
        link = get(client, "/capacity/Link")
        assert link["verdict_reason"] == "0.6 lies inside 0.45 to 0.68; broken chain since 12 June"
        then = get(client, "/capacity/Link", as_of=f"{AS_OF - timedelta(days=2):%Y-%m-%d}")
        assert then["raised"][0]["since"] == time_text(AS_OF - timedelta(days=3))
        before = get(client, "/capacity/Link", as_of=f"{AS_OF - timedelta(days=4):%Y-%m-%d}")
        assert before["raised"] == [] and before["verdict"] in ("keep", "grant")
        page = client.get("/agent?agent_id=Link").text
        assert "broken chain since 12 June" in page
        # Before the gap, the alert was raised from the first as-of on, so its bar begins at the left.
        bars = re.findall(r"<rect class=critical x=(\S+) width=([^>]+)>", page)
        assert bars == [("0%", "88.6%"), ("93.2%", "6.8%")]
        assert "since 2026-06-12" in client.get("/alerts?kind=broken_chain").text


def test_red_flags_equal_the_marts(client, marts):
    answer = get(client, "/red-flags", window_days=30)
    in_mart = marts.execute(
        "select agent_id_hash, agent_name, red_flag, field, z, message from fct_record_signs"
        " where as_of = %s and window_days = 30",
        [AS_OF],
    ).fetchall()
    assert answer["red_flags"] == in_mart and answer["total_red_flag_count"] == len(in_mart) > 0
    [chosen] = {one["red_flag"] for one in in_mart[:1]}
    assert get(client, "/red-flags", window_days=30, red_flag=chosen)["red_flags"] == [
        one for one in in_mart if one["red_flag"] == chosen
    ]


def test_parameters_equal_the_marts(client, marts):
    answer = get(client, "/parameters")
    rows = marts.execute("select * from dim_scoring_parameters").fetchall()
    assert {parameter["name"]: parameter for parameter in answer["published"]} == {
        row["parameter_name"]: {
            "name": row["parameter_name"],
            "value": row["parameter_value"],
            "default": row["default_value"],
            "allowed_range": row["allowed_range"],
            "meaning": row["meaning"],
            "section": str(row["specification_section"]),
        }
        for row in rows
    }
    assert answer["parameters"] == {
        "lambda_C": 5, "mu_C": 10, "decay_rate": 0.05, "signal_weight": 1, "min_traces": 30,
        "default_window_days": 7, "baseline_window_days": 23, "coherence_window_days": 30,
    }  # fmt: skip
    categories = marts.execute("select * from dim_capacity_categories").fetchall()
    assert answer["categories"] == {row["category"]: row["guidance"] for row in categories}
    assert len(answer["category_bounds"]) == 4
    assert (
        answer["windows"]
        == marts.execute(
            "select window_days, baseline_days, coherence_days from dim_scoring_windows order by window_days"
        ).fetchall()
    )
    assert set(answer["non_exempt_actions"]) & set(answer["exempt_actions"]) == set()


def test_evidence_has_the_traces_that_explain_counts(client, sample):
    """Compares all components and pages. test_explain.py compares the counts with the published components."""
    everything = load_project(REPOSITORY, sample.profiles_dir)
    n_found = 0
    for agent in (LINK, MORPHEUS, ECHO, PARADOX):
        parts = {
            part["loss_component"]: part["n_traces"]
            for part in explain(everything, agent, None, 30, None)["loss_components"]
        }
        for component in RULES:
            asked = {"window_days": 30, "limit": 1000}
            traces = pages_of_evidence(client, agent, component=component, **asked)
            assert len(traces) == parts[component], (agent, component)
            assert traces == pages_of_evidence(client, agent, component=lens_name(component), **asked)
            n_found += bool(traces)
    assert n_found > 15


def pages_of_evidence(client: TestClient, agent: str, **parameters: Any) -> list[dict[str, Any]]:
    *full, last = all_pages(client, f"/evidence/{agent}", **parameters)
    assert {len(page["traces"]) for page in full} <= {parameters["limit"]}
    return [trace for page in (*full, last) for trace in page["traces"]]


def test_evidence_is_paged_by_key(client, marts):
    whole = pages_of_evidence(client, "Link", component="I_chain", limit=1000)
    assert len(whole) == 39
    assert pages_of_evidence(client, "Link", component="i_chain", limit=7) == whole
    times = [trace["traced_at"] for trace in whole]
    assert times == sorted(times, reverse=True)
    verdicts = marts.execute(
        "select trace_id from fct_trace_checks where agent_id_hash = %s and is_counted and not is_chain_valid"
        " and traced_at >= %s and traced_at < %s",
        [LINK, AS_OF - timedelta(days=7), AS_OF],
    ).fetchall()
    assert sorted(trace["trace_id"] for trace in whole) == sorted(row["trace_id"] for row in verdicts)
    earlier = get(client, "/evidence/Link", component="I_chain", as_of="2026-06-08", limit=1000)
    assert max(trace["traced_at"] for trace in earlier["traces"]) < "2026-06-08"
    assert earlier["window_start"] == "2026-06-01T00:00:00+00:00"


def test_sigma_has_the_evidence_of_s_score(client):
    asked = [client.get(f"{SCORING}/evidence/Link?component={name}").json() for name in ("sigma", "s_score")]
    assert asked[0]["traces"] == asked[1]["traces"]
    assert "component=sigma" in client.get("/agent?agent_id=Link").text


def test_healthz_and_readyz_report_process_and_marts(client, marts):
    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz").json()
    assert ready["as_of"] == time_text(AS_OF)
    assert ready["as_of_age_seconds"] == pytest.approx((datetime.now(UTC) - AS_OF).total_seconds(), abs=60)
    marts.execute("alter table dim_agents rename to dim_agents_away")
    try:
        assert "no dim_agents" in refused(client, "/readyz", 503, "not-published")["detail"]
        response = client.get(f"{SCORING}/capacity/Link")
        assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    finally:
        marts.execute("alter table dim_agents_away rename to dim_agents")
    assert client.get("/readyz").status_code == 200


# --- identifying agents ----------------------------------------------------------------------------------------------


def test_name_of_several_agents_is_refused_with_their_list(client, marts):
    statement = "update dim_agents set agent_name = 'Link' where agent_id_hash = %s"
    with changed(marts, "dim_agents", statement, [ECHO]):
        for path in ("capacity/Link", "factors/Link", "history/Link", "evidence/Link?component=I_chain"):
            problem = refused(client, f"{SCORING}/{path}", 409, "ambiguous-agent")
            assert problem["agents"] == [
                {"agent_id_hash": LINK, "agent_name": "Link"},
                {"agent_id_hash": ECHO, "agent_name": "Link"},
            ]
            assert problem["agents_not_shown"] == 0
        for asked in (LINK, LINK[:4], "Link (4107c26f)"):
            assert get(client, f"/capacity/{asked}")["agent_id_hash"] == LINK
    assert get(client, "/capacity/Link")["agent_id_hash"] == LINK


OF_AGENTS = ("capacity", "factors", "history", "evidence")


def of_agent(client: TestClient, endpoint: str, agent: str) -> Any:
    """Return the answer of an endpoint for an agent."""
    query = "?component=D_identity" if endpoint == "evidence" else ""
    return client.get(f"{SCORING}/{endpoint}/{quote(agent, safe='')}{query}")


@pytest.mark.parametrize("endpoint", OF_AGENTS)
def test_name_finds_its_current_agent_and_notes_earlier_ones(client, endpoint):
    """The agent Morpheus was called Haven for some days."""
    answer = of_agent(client, endpoint, "Haven").json()
    assert answer["agent_name"] == "Haven"
    assert answer["agent_note"] == f"Another agent once had this name: {MORPHEUS}."
    other = of_agent(client, endpoint, "Haven (da3f0851)").json()
    assert other["agent_name"] == "Morpheus" and other["agent_note"] is None
    by_former_name = of_agent(client, endpoint, "Proteus").json()
    assert by_former_name["agent_name"] == "Morpheus" and by_former_name["agent_note"] is None


@pytest.mark.parametrize("endpoint", OF_AGENTS)
@pytest.mark.parametrize("name", [LINK, LINK[:8], "Link (4107c26f)"], ids=["hash", "beginning", "label"])
def test_a_name_like_the_hash_or_label_of_another_agent_is_ambiguous(client, marts, endpoint, name):
    with changed(
        marts, "dim_agents", "update dim_agents set agent_name = %s where agent_id_hash = %s", [name, ECHO]
    ):
        answer = of_agent(client, endpoint, name)
        assert (answer.status_code, answer.json()["type"]) == (409, TYPE + "ambiguous-agent")
        assert [agent["agent_id_hash"] for agent in answer.json()["agents"]] == [LINK, ECHO]
        assert f"'hash:{LINK}'" in answer.json()["detail"]
        for agent_id_hash in (LINK, ECHO):
            named = of_agent(client, endpoint, f"hash:{agent_id_hash}")
            assert named.json()["agent_id_hash"] == agent_id_hash
    assert of_agent(client, endpoint, name).json()["agent_id_hash"] == LINK


@pytest.mark.parametrize("endpoint", OF_AGENTS)
def test_a_hash_like_the_name_of_another_agent_is_ambiguous(client, marts, endpoint):
    """An agent chooses its hash, so it must not be able to replace another agent that has this name."""
    statement = "update dim_agents set agent_id_hash = %s where agent_id_hash = %s"
    with changed(marts, "dim_agents", statement, ["Link", ECHO]):
        answer = of_agent(client, endpoint, "Link")
        assert answer.status_code == 409
        assert {agent["agent_id_hash"] for agent in answer.json()["agents"]} == {"Link", LINK}
        assert of_agent(client, endpoint, f"hash:{LINK}").json()["agent_id_hash"] == LINK
        assert of_agent(client, endpoint, "hash:Lin").status_code == 404


def test_hash_takes_precedence_over_a_former_name_which_is_noted(client, marts):
    statement = "update dim_agents set former_names = array[%s, %s] where agent_id_hash = %s"
    with changed(marts, "dim_agents", statement, [LINK, LINK[:6], ECHO]):
        answer = get(client, f"/capacity/{LINK}")
        assert answer["agent_id_hash"] == LINK
        assert answer["agent_note"] == f"Another agent once had this name: {ECHO}."
        refused(client, f"{SCORING}/capacity/{LINK[:6]}", 409, "ambiguous-agent")
        assert get(client, f"/capacity/hash:{LINK}")["agent_note"] is None


def test_a_note_lists_three_agents_at_most(client, marts):
    statement = "update dim_agents set former_names = array['Link'] where agent_name <> 'Link'"
    with changed(marts, "dim_agents", statement, []):
        note = get(client, "/capacity/Link")["agent_note"]
    hashes = sorted(row["agent_id_hash"] for row in marts.execute("select agent_id_hash from dim_agents"))
    hashes.remove(LINK)
    assert note == f"13 other agents once had this name: {', '.join(hashes[:3])} and 10 more."


def test_evidence_has_the_agent_name_at_its_as_of(client):
    evidence = get(client, "/evidence/Morpheus", component="D_identity", as_of="2026-06-08")
    assert evidence["agent_name"] == "Proteus"


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "../../x",
        "fleet",
        "ünïcode 探索",
        "👩‍👧",
        "%41",
        "a?b#c",
        '"><script>',
        "'; drop table x --",
        "\u202eab",
    ],
)
def test_agents_with_any_name_can_be_requested(raw, marts, name):
    statement = "update dim_agents set agent_name = %s where agent_id_hash = %s"
    with changed(marts, "dim_agents", statement, [name, LINK]):
        for endpoint in ("history", "factors"):
            status, _, body = ask(raw, f"{SCORING}/{endpoint}/{quote(name, safe='')}")
            assert (status, json.loads(body)["agent_id_hash"]) == (200, LINK)


def test_an_agent_without_a_name_is_called_by_its_hash(client, marts):
    nameless = "update fct_capacity_scores set agent_name = null where agent_id_hash = %s"
    with changed(marts, "fct_capacity_scores", nameless, [LINK]):
        assert get(client, f"/capacity/{LINK}")["agent_name"] == LINK


# --- clients of the lens ---------------------------------------------------------------------------------------------

LENS_FACTOR = {"score": float, "components": {"*": object}, "trace_count": int, "confidence": str}
LENS_WINDOW = {"window_start": str, "window_end": str, "total_traces": int, "non_exempt_traces": int}
LENS_AGENT = {"agent_name": str, "composite_score": float, "fragility_index": float, "category": str}
LENS_SCORE = {**LENS_AGENT, "factors": dict.fromkeys(FACTORS, LENS_FACTOR), "metadata": LENS_WINDOW}
LENS_EXPLAINED = {**LENS_FACTOR, "name": str, "formula": str, "description": str}
LENS_LIST = {"timestamp": str, "window_days": int, "cache": {"cached": bool, "ttl_seconds": int}}
LENS_CATEGORIES = ("high_capacity", "healthy", "moderate", "high_fragility")
LENS_ANSWERS = {
    "/capacity/fleet?window_days=30": {
        **LENS_LIST,
        "agent_count": int,
        "agents": [LENS_SCORE],
        "summary": dict.fromkeys(LENS_CATEGORIES, int),
    },
    "/capacity/Link": LENS_SCORE,
    "/factors/Link": {
        "factors": dict.fromkeys(FACTORS, LENS_EXPLAINED),
        "metadata": {"non_exempt_actions": [str]},
    },
    "/alerts": {
        **LENS_LIST,
        "threshold": float,
        "alert_count": int,
        "agents": [{**LENS_AGENT, "weakest_factor": str, "non_exempt_traces": int}],
    },
    "/history/Link": {
        **dict.fromkeys(("agent_name", "interval", "current_category", "note"), str),
        **{"period_days": int, "current_score": float, "history": [dict]},
    },
}
"""Members that clients of the lens read, with their types."""


def assert_shaped(value: Any, shape: Any) -> None:
    """Check that a value has a shape: a dictionary at least its members, a list only items of its shape."""
    if isinstance(shape, dict):
        for name, inner in shape.items():
            for member in value.values() if name == "*" else [value[name]]:
                assert_shaped(member, inner)
    elif isinstance(shape, list):
        assert value
        for member in value:
            assert_shaped(member, shape[0])
    else:
        assert isinstance(value, shape) and (isinstance(value, bool) == (shape is bool) or shape is object), (
            value
        )


def test_answers_have_all_members_that_lens_clients_read(client):
    answers = {path: client.get(SCORING + path).json() for path in LENS_ANSWERS}
    for path, shape in LENS_ANSWERS.items():
        assert_shaped(answers[path], shape)
    fleet = answers["/capacity/fleet?window_days=30"]
    assert fleet["agent_count"] == len(fleet["agents"]) == 14
    assert sum(fleet["summary"][name] for name in LENS_CATEGORIES) == 14
    scores = [agent["composite_score"] for agent in fleet["agents"]]
    assert scores == sorted(scores, reverse=True)
    [first, *_] = fleet["agents"]
    for moment in (fleet["timestamp"], first["metadata"]["window_start"], first["metadata"]["window_end"]):
        assert moment.endswith("+00:00")
    for factor, names in {
        "C": {"D_identity", "K_contradiction"},
        "I_int": {"I_chain", "I_coverage", "I_replay"},
        "I_inc": {"ECE", "Q_deferral", "U_unsafe"},
    }.items():
        assert names <= set(first["factors"][factor]["components"])


# --- the OpenAPI document --------------------------------------------------------------------------------------------


def test_openapi_document_has_descriptions_and_examples(app):
    document = app.openapi()
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    tags = {tag["name"] for tag in document["tags"] if tag["description"]}
    for path, operations in document["paths"].items():
        operation = operations["get"]
        assert operation["description"] and operation["summary"], path
        assert operation["tags"] and tags.issuperset(operation["tags"]), path
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (path, parameter["name"])
        for media_type, content in operation["responses"]["200"]["content"].items():
            assert content["example"], (path, media_type)
        for status, response in operation["responses"].items():
            assert response["description"], (path, status)
            if int(status) >= 400:
                [(media_type, content)] = response["content"].items()
                assert (media_type, content["schema"]) == (
                    "application/problem+json",
                    {"$ref": "#/components/schemas/ProblemDocument"},
                )
                assert content["example"]["detail"]
    schemas = document["components"]["schemas"]
    undescribed = [
        (name, member)
        for name, schema in schemas.items()
        for member, properties in schema.get("properties", {}).items()
        if not (properties | schemas.get(properties.get("$ref", "").rpartition("/")[2], {})).get(
            "description"
        )
    ]
    assert undescribed == []


def test_examples_are_what_the_server_answers(served):
    """Bounds may differ in their last digits, because numpy computes logarithms differently on other processors."""
    changing = {"timestamp", "scored_at", "as_of_age_seconds", "history.csv", "cached"}

    def stable(value: Any, number: Callable[[float], Any] = float) -> Any:
        if isinstance(value, dict):
            return {name: stable(member, number) for name, member in value.items() if name not in changing}
        if isinstance(value, list):
            return [stable(member, number) for member in value]
        return number(value) if isinstance(value, float) else value

    written = json.loads(api_examples.FILE.read_text(encoding="utf-8"))
    assert stable(api_examples.examples(served)) == stable(
        written, lambda value: pytest.approx(value, rel=1e-9)
    )


@pytest.fixture(scope="module")
def fuzzed(served: ServedDatabase) -> Any:
    """OpenAPI document of an application without a check of the host name."""
    asked = create_app(served, Settings(version_seconds=60, local_names_only=False))
    return schemathesis.openapi.from_asgi("/openapi.json", asked)


CHECKS = [
    not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.positive_data_acceptance,
    openapi_checks.negative_data_rejection,
    openapi_checks.unsupported_method,
]
WITHOUT_PARAMETERS = ["parameters", "healthz", "readyz"]
OPERATIONS = [
    "fleet",
    "capacity",
    "factors",
    "history",
    "alerts",
    "red_flags",
    "evidence",
    *WITHOUT_PARAMETERS,
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_match_the_openapi_document(fuzzed, operation):
    asked = fuzzed.find_operation_by_id(operation)
    for mode in GenerationMode:
        if mode == GenerationMode.NEGATIVE and operation in WITHOUT_PARAMETERS:
            continue  # no parameter to fuzz

        cases = asked.as_strategy(generation_mode=mode)
        if mode == GenerationMode.POSITIVE:  # a schema cannot express that `to` must not be before `from`
            cases = cases.filter(lambda case: not {"from", "to"} <= set(case.query or ()))

        @given(case=cases)
        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS)
            if "agent_id" in case.path_parameters:
                case.path_parameters["agent_id"] = LINK
                case.call_and_validate(checks=CHECKS[:-2])

        check()


def test_client_can_be_generated_from_openapi_document(client, tmp_path):
    """openapi-python-client generates valid Python from the whole document without a warning."""
    document = tmp_path / "openapi.json"
    document.write_text(client.get("/openapi.json").text)
    programs = Path(sys.executable).parent
    command_line.printed(
        programs / "openapi-python-client", "generate", "--path", document, "--output-path", tmp_path / "client",
        "--meta", "none", "--fail-on-warning", env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert {path.stem for path in (tmp_path / "client/api/scoring").glob("*.py")} > {
        "fleet",
        "alerts",
        "red_flags",
    }
    assert compileall.compile_dir(tmp_path / "client", quiet=1)


def test_every_operation_is_fuzzed(fuzzed):
    names = [result.ok().definition.raw["operationId"] for result in fuzzed.get_all_operations()]
    assert sorted(names) == sorted(OPERATIONS)


# --- malformed and hostile requests ----------------------------------------------------------------------------------

INJECTIONS = [
    "' or 1=1 --",
    "'; drop table ciris.dim_agents; --",
    "1); select pg_sleep(9) --",
    "%s",
    "{schema}",
    "$1",
]
AGENTS = [
    "%00", "a%00b", "%ED%A0%80", "%FF%FE", "%F0%9F", "..%2f..%2f..%2fetc%2fpasswd", "../../../etc/passwd", ".", "..",
    "%0d%0aSet-Cookie:%20a=b", "%20", "%E2%80%AE", "x" * 10_240, "%F0%9F%92%A9" * 2_000, "%25", "%", "%zz", ";", "a//b",
    *map(quote, INJECTIONS),
]  # fmt: skip
QUERIES = {
    "capacity/fleet": [
        "window_days=0", "window_days=-7", "window_days=7.5", f"window_days={10**100}", "window_days=NaN",
        "window_days=", "limit=0", "limit=-1", f"limit={2**63}", "offset=-1", f"offset={2**64}", "offset=10000000000",
        "raised=nothing", "raised=", "verdict=maybe",
        "category=best", "as_of=9999-99-99", "as_of=yesterday", "windowdays=30", "_=1&x", "x" * 5_000,
        "status=x", "sort=capacity_score", "sort=-", "sort=1", "category=%00", "sort=%ED%A0%80",
        *(f"{name}={quote(text)}" for name in ("window_days", "category", "status", "sort", "limit", "offset")
          for text in INJECTIONS),
    ],
    "history/Link": [
        "from=2026-06-02&to=2026-06-01", "from=2026-06-01T00:00:01&to=2026-06-01",
        "days=0", "days=401", "days=-1", "days=1e3", "interval=minutely", "from=yesterday",
        "from=9999-12-31T23:59:59-12:00",
        "from=0001-01-01T00:00:00%2B14:00", 
        "from=10000-01-01", "from=-infinity", "to=infinity", "from=%00", "from=%ED%A0%80",
        f"from={'9' * 10_240}", "from=", "to=2026-13-01", "from=2026-06-01T25:00",
        *(f"{name}={quote(text)}" for name in ("days", "from", "to", "interval", "window_days") for text in INJECTIONS),
    ],
    "capacity/Link": ["unknown=1", "as_of=9999-99-99", "as_of=", "as_of=2026-06-15T25:00", "AS_OF=2026-06-15"],
    "factors/Link": ["component=I_chain", "as_of=9999-99-99"],
    "parameters": ["window_days=7"],
    "red-flags": ["red_flag=nothing", "red_flag=", "red_flag=falling"],
    "alerts": [
        "as_of=9999-99-99", "window=7", "threshold=-0.1", "kind=nothing", "kind=", "kind=LOW_CAPACITY",
        "severity=fatal", "kind=new_identity",
        "threshold=1.1", "threshold=nan", "threshold=inf", "threshold=1e999", "threshold=x",
        *(f"threshold={quote(text)}" for text in INJECTIONS),
    ],
    "evidence/Link": [
        "", "component=", "component=delta_drift", "component=ECE", "component=%00", "component=I_chain&limit=0",
        "component=I_chain&limit=1001", "component=I_chain&after=x", "component=I_chain&after=%00",
        "component=I_chain&after=99999999999999999999.0e4a5780-478a-1488-d989-54cb42dd2a6b",
        "component=I_chain&after=1.0e4a5780", "component=I_chain&as_of=x", "component=I_chain&as_of=%ED%A0%80",
        *(f"component=I_chain&{name}={quote(text)}" for name in ("as_of", "window_days", "after", "limit")
          for text in INJECTIONS),
        *(f"component={quote(text)}" for text in INJECTIONS),
    ],
}  # fmt: skip
ALLOWED_ODDITIES = [
    "history/Link?days=3&from=2026-06-01",
    "history/Link?to=0001-01-01",
    "history/Link?from=2020-01-01",
    "capacity/Link/",
    "alerts/?window_days=30",
    "capacity/fleet?offset=10000000",
    "capacity/fleet?limit=10000000&offset=9999999",
    "history/Link?from=0001-01-02&to=0001-01-03",
    "history/Link?days=400&interval=hourly",
    "evidence/Link?component=I_chain&after=99999999999999999.ffffffff-ffff-ffff-ffff-ffffffffffff",
    "evidence/Link?component=I_chain&after=0.00000000-0000-0000-0000-000000000000",
    "capacity/Link?_=2&_nocache",
    "capacity/Link?as_of=2026-06-15",
    "capacity/Link?as_of=2026-06-15T02:00:00%2B02:00",
]


@pytest.fixture(scope="module")
def port(app: FastAPI) -> Iterator[int]:
    """Port of the application on a socket."""
    with running(app) as served_on:
        yield served_on


@pytest.fixture
def raw(port: int) -> Iterator[http.client.HTTPConnection]:
    """A connection that sends a path unchanged."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        yield connection


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, str, bytes]:
    connection.putrequest("GET", path, skip_accept_encoding=True)
    connection.endheaders()
    response = connection.getresponse()
    return response.status, response.headers["content-type"], response.read()


def assert_problem(answer: tuple[int, str, bytes], *statuses: int) -> None:
    status, media_type, body = answer
    assert status in statuses, (status, body[:300])
    assert media_type == "application/problem+json"
    document = json.loads(body)
    assert document["status"] == status and document["type"].startswith(TYPE) and document["detail"]
    assert len(json.dumps(document, ensure_ascii=False)) < 2_000
    assert (
        b"Traceback" not in body
        and b"psycopg" not in body
        and b"select" not in body.lower().replace(b"select pg_sleep", b"")
    )


def test_malformed_agents_are_unknown(raw):
    for endpoint in ("capacity", "factors", "history", "evidence"):
        for agent in AGENTS:
            query = "?component=I_chain" if endpoint == "evidence" else ""
            assert_problem(ask(raw, f"{SCORING}/{endpoint}/{agent}{query}"), 404)


def test_malformed_parameters_are_refused(raw):
    for path, queries in QUERIES.items():
        for query in queries:
            assert_problem(ask(raw, f"{SCORING}/{path}?{query}"), 422)


def test_extreme_but_valid_requests_are_answered(raw):
    for path in ALLOWED_ODDITIES:
        status, media_type, body = ask(raw, f"{SCORING}/{path}")
        assert (status, media_type) == (200, "application/json"), (path, body[:300])
        json.loads(body)


HOSTILE = [
    "%00", "a%00b", "%ED%A0%80", "%FF%FE", "x" * 10_240, "9" * 10_240, "9999-12-31T23:59:59-14:00", "-1", "1e999",
    "%F0%9F%92%A9" * 2_000, "%E2%80%AE", *map(quote, INJECTIONS),
]  # fmt: skip
NEEDED = {"agent_id": "Link", "component": "I_chain"}


def test_no_parameter_of_an_endpoint_or_a_page_does_harm(raw):
    n_parameters = 0
    for route in (*endpoints.scoring.routes, *api_pages.router.routes):
        names = [field.alias for field in route.dependant.query_params]
        for name in (*names, *(field.alias for field in route.dependant.path_params)):
            for text in HOSTILE:
                values = NEEDED | {name: text}
                path = route.path.replace("{agent_id:path}", "{agent_id}").format(**values)
                query = "&".join(f"{n}={values[n]}" for n in names if n in values)
                status, media_type, body = ask(raw, f"{path}?{query}")
                assert status in (200, 307, 404, 409, 422), (path, query[:300], body[:300])
                if status not in (200, 307) and "html" not in media_type:
                    assert_problem((status, media_type, body), status)
                assert b"Traceback" not in body and b"psycopg" not in body
            n_parameters += 1
    assert n_parameters >= 31


def test_missing_resources_and_methods_are_refused_as_problems(client):
    refused(client, "/nothing", 404, "not-found")
    refused(client, f"{SCORING}/", 404, "not-found")
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = client.request(method, f"{SCORING}/alerts", content=b"x" * 100_000)
        assert response.status_code == 405
        assert response.json()["type"] == TYPE + "method-not-allowed"
        assert response.headers["allow"] == "GET, HEAD"
    problem = refused(client, f"{SCORING}/capacity/Link?window_days=14", 404, "no-score")
    assert problem["allowed"] == [7, 30]
    problem = refused(client, f"{SCORING}/capacity/Link?window_days=0&threshold=x", 422, "bad-parameter")
    assert {error["parameter"]: error["message"] for error in problem["errors"]} == {
        "window_days": "is '0'; the least is 1",
        "threshold": "is 'x', which is no number",
    }
    problem = refused(client, f"{SCORING}/capacity/Lnik", 404, "unknown-agent")
    assert [agent["agent_name"] for agent in problem["agents"]] == ["Link"]
    problem = refused(client, f"{SCORING}/evidence/Link?component=I_chain&as_of=2020-01-01", 404, "no-score")
    assert "2020-01-01" in problem["detail"]
    problem = refused(client, f"{SCORING}/capacity/Link?as_at=2026-06-10&_=1&utm", 422, "bad-parameter")
    assert [error["parameter"] for error in problem["errors"]] == ["as_at", "utm"]
    assert (
        set(problem["allowed"]) == {"window_days", "as_of", "threshold"}
        and "'as_at', 'utm'" in problem["detail"]
    )
    for path in (
        "/",
        "/agent?agent_id=Link",
        "/alerts",
        "/parameters",
        "/healthz",
        "/readyz",
        "/metrics",
        "/docs",
    ):
        refused(client, f"{path}{'&' if '?' in path else '?'}windowdays=30", 422, "bad-parameter")


def test_bug_is_reported_in_the_log_only(app, monkeypatch):
    monkeypatch.setattr(answers_module.Answers, "publication", lambda self: 1 / 0)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        document = refused(client, f"{SCORING}/capacity/Link", 500, "internal")
        headers = client.get(f"{SCORING}/capacity/Link").headers
    assert "division" not in json.dumps(document)
    assert SECURITY_HEADERS.items() <= {name.title(): value for name, value in headers.items()}.items()


# --- the cache -------------------------------------------------------------------------------------------------------


def test_answer_stays_cached_until_a_publication(client, marts):
    path = f"{SCORING}/capacity/fleet"
    first = client.get(path)
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, no-cache"
    again = client.get(path)
    assert again.headers["etag"] == etag and again.json()["cache"]["cached"] is True
    assert {**again.json(), "cache": None} == {**first.json(), "cache": None}
    for tags in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*"):
        unchanged = client.get(path, headers={"If-None-Match": tags})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert unchanged.headers["etag"] == etag
    assert client.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    assert client.get(f"{path}?window_days=30").headers["etag"] != etag
    statement = (
        "update fct_capacity_scores set capacity_score = 0.123 "
        "where agent_id_hash = %s and as_of = %s and window_days = 7"
    )
    with changed(marts, "fct_capacity_scores", statement, [LINK, AS_OF]):
        newer = client.get(path, headers={"If-None-Match": etag})
        assert newer.status_code == 200 and newer.headers["etag"] != etag
        assert 0.123 in {agent["composite_score"] for agent in newer.json()["agents"]}


def test_publication_identity_is_unique_while_a_run_is_unfinished(served, client, marts):
    """The same holds after a run that was killed or failed. The marts may then be partly old and partly new."""
    path = f"{SCORING}/capacity/fleet"

    def identity() -> str:
        return served.read(lambda connection: read_publication(Marts(connection, served.relations))).identity

    before = identity()
    assert identity() == before
    etag = client.get(path).headers["etag"]
    enter(marts, "refused")
    refused = identity()
    assert identity() == refused != before
    run_id = enter(marts, None)
    enter(marts, "refused")  # refused because a run is at work
    seen = {before, refused}
    for outcome in (None, "failed", "interrupted"):
        marts.execute(
            f"update {SCHEMA}_intermediate.int_runs set outcome = %s where run_id = %s", [outcome, run_id]
        )
        for _ in range(2):
            assert identity() not in seen
            seen.add(identity())
    tags = [client.get(path, headers={"If-None-Match": etag}).headers["etag"] for _ in range(2)]
    assert len({etag, *tags}) == 3
    enter(marts, "built")
    built = identity()
    assert identity() == built and built not in seen
    republish(marts)
    assert identity() not in {built, *seen}


def test_cached_answers_equal_the_original_ones(served):
    """Holds for compressed and uncompressed answers. Problems are never cached."""
    with asking(served, Settings(version_seconds=60)) as client:
        plain = {"Accept-Encoding": "identity"}
        made = client.get(f"{SCORING}/history/Link?days=5", headers=plain)
        kept = client.get(f"{SCORING}/history/Link?days=5", headers=plain)
        assert kept.json()["cache"] == {"cached": True, "ttl_seconds": 60}
        compressed = client.get(f"{SCORING}/history/Link?days=5")
        assert compressed.headers["content-encoding"] == "gzip"
        assert compressed.json() == kept.json() == {**made.json(), "cache": kept.json()["cache"]}
        as_csv = client.get(f"{SCORING}/history/Link?days=5", headers={"Accept": "text/csv"})
        assert as_csv.headers["content-type"].startswith("text/csv")
        for _ in range(2):
            refused(client, f"{SCORING}/capacity/nobody", 404, "unknown-agent")
            assert client.post(f"{SCORING}/history/Link?days=5").status_code == 405


def test_cache_stays_within_its_size(served, marts):
    with asking(served, Settings(version_seconds=60, cache_bytes=60_000)) as client:
        kept = client.app.state.answers
        for row in marts.execute("select agent_id_hash from dim_agents").fetchall():
            for endpoint in ("capacity", "factors"):
                assert client.get(f"{SCORING}/{endpoint}/{row['agent_id_hash']}").status_code == 200
                assert 0 < kept._n_bytes <= 60_000
                assert kept._n_bytes == sum(answer.n_bytes for answer in kept._kept.values())
        before = list(kept._kept)
        assert len(before) < 28, "none was driven out"
        # larger than a quarter of the cache, but not larger than the cache
        fleet = client.get(f"{SCORING}/capacity/fleet")
        assert fleet.status_code == 200 and 15_000 < len(fleet.content) < 50_000
        assert list(kept._kept) == before, "it has driven others out"
        known = {"If-None-Match": fleet.headers["etag"]}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kept, "_make", lambda *_: 1 / 0)  # building the answer again would fail
            assert client.get(f"{SCORING}/capacity/fleet", headers=known).status_code == 304
        assert client.get(f"{SCORING}/capacity/Link?_x={'y' * 5_000}").status_code == 200
    assert {path for path, *_ in kept._kept} >= {f"{SCORING}/capacity/Link"}
    assert not any(path.endswith("/fleet") or b"_x" in repr(query).encode() for path, *query in kept._kept)


# --- keys and rate limits --------------------------------------------------------------------------------------------


def test_key_is_required_except_for_probes(served):
    with asking(served, Settings(key=KEY)) as client:
        path = f"{SCORING}/capacity/Link"
        wrong: list[dict[str, str]] = [{}, {"X-API-Key": KEY[:-1]}, {"X-API-Key": "ü"}]
        wrong += [
            {"Authorization": value} for value in (f"Bearer {KEY}x", "Basic !", "Basic /w==", "Basic é", KEY)
        ]
        for headers in wrong:
            response = client.get(path, headers={k: v.encode() for k, v in headers.items()})
            assert response.status_code == 401
            assert response.json()["type"] == TYPE + "key-required"
            assert "Bearer" in response.headers["www-authenticate"]
            assert KEY not in response.text
        for given in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}):
            response = client.get(path, headers=given)
            assert (response.status_code, response.headers["cache-control"]) == (200, "private, no-cache")
        assert client.get(path, auth=("anybody", KEY)).status_code == 200
        assert [client.get(path).status_code for path in ("/", "/metrics", "/openapi.json")] == [401] * 3
        assert client.get("/metrics", headers={"X-API-Key": KEY}).status_code == 200
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    assert "0123456789" not in repr(Settings(key=KEY))


def test_key_is_required_unless_host_is_loopback(monkeypatch):
    def settled(host: str, **options: Any) -> Settings:
        return settings_of(
            host,
            8000,
            **{"no_auth": False, "requests_per_minute": None, "origins": (), "cache_mb": 1, **options},
        )

    monkeypatch.delenv("CIRIS_API_KEY", raising=False)
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        local = settled(host)
        assert (local.key, local.requests_per_minute, local.local_names_only) == (None, 0, True)
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        with pytest.raises(InputError, match="no API key is set"):
            settled(host)
        assert settled(host, no_auth=True).requests_per_minute == 600
    monkeypatch.setenv("CIRIS_API_KEY", KEY)
    assert settled("0.0.0.0").key == settled("127.0.0.1").key == KEY
    assert settled("0.0.0.0", no_auth=True).key is None
    assert settled("0.0.0.0", requests_per_minute=0).requests_per_minute == 0
    monkeypatch.setenv("CIRIS_API_KEY", "short")
    with pytest.raises(InputError, match="at least 16"):
        settled("0.0.0.0")
    for origin in ("*", "example.org", "https://example.org/path", "https://*.example.org"):
        with pytest.raises(InputError, match="no origin"):
            settled("127.0.0.1", no_auth=True, origins=(origin,))


def test_client_above_the_rate_limit_gets_429(served, monkeypatch):
    monkeypatch.setattr(guard, "monotonic", lambda: 0.0)
    with asking(served, Settings(requests_per_minute=3)) as client:
        answers = [client.get(f"{SCORING}/capacity/Link") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
        problem = answers[-1].json()
        assert (problem["type"], problem["limit"]) == (TYPE + "too-many-requests", 3)
        assert answers[-1].headers["retry-after"] == str(problem["retry_after"]) == "20"
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 429  # this probe reads the database, so it is limited


def test_the_limit_is_per_client_and_refills(monkeypatch):
    now = 0.0
    monkeypatch.setattr(guard, "monotonic", lambda: now)
    limits = Limits(60)
    assert [limits.take("a") for _ in range(60)] == list(range(59, -1, -1))
    with pytest.raises(Problem):
        limits.take("a")
    assert limits.take("b") == 59
    now = 2.5
    assert limits.take("a") == 1
    for number in range(MOST_CLIENTS + 5):
        limits.take(str(number))
    assert len(limits.buckets) == MOST_CLIENTS
    addresses = {"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff": "2001:db8::/64",
                 "::ffff:192.0.2.1": "192.0.2.1"}  # fmt: skip
    assert {address: client_of({"client": (address, 1)}) for address in addresses} == addresses


def test_answers_have_security_headers_and_foreign_hosts_are_refused(client, served):
    for path in ("/healthz", f"{SCORING}/alerts", "/nothing", "/"):
        headers = client.get(path, headers={"Origin": "https://evil.example"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers and "server" not in headers
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "[::2]", ""):
        response = client.get("/healthz", headers={"Host": host})
        assert (response.status_code, response.json()["type"]) == (421, TYPE + "host-not-served"), host
    for host in ("localhost:8000", "127.0.0.1", "127.8.9.1:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200
    with asking(served, Settings(key=KEY, origins=("https://good.example",))) as client:
        good = client.get(f"{SCORING}/alerts", headers={"Origin": "https://good.example", "X-API-Key": KEY})
        assert good.headers["access-control-allow-origin"] == "https://good.example"
        assert "access-control-allow-credentials" not in good.headers
        evil = client.get(f"{SCORING}/alerts", headers={"Origin": "https://evil.example", "X-API-Key": KEY})
        assert "access-control-allow-origin" not in evil.headers
        preflight = {"Origin": "https://good.example", "Access-Control-Request-Method": "GET",
                     "Access-Control-Request-Headers": "X-API-Key"}  # fmt: skip
        assert client.options(f"{SCORING}/alerts", headers=preflight).status_code == 200


def test_pages_are_served_beside_the_api(client):
    for path in ("/", "/agent?agent_id=Link", "/alerts", "/parameters", "/?window_days=30"):
        page = client.get(path)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        assert "<h1" in page.text or "<h2" in page.text
    moved = client.get("/agents/Link?window_days=30", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (307, "../agent?agent_id=Link&window_days=30")
    assert client.get("/agents/Link").text == client.get("/agent?agent_id=Link").text
    for path, message in (
        ("/agent?agent_id=nobody", "There is no such agent"),
        ("/agent?agent_id=Link&window_days=5", "No such window"),
        ("/alerts?window_days=5", "No such window"),
    ):
        page = client.get(path)
        assert (page.status_code, page.headers["cache-control"]) == (404, "no-store"), path
        assert message in page.text


def test_head_has_the_headers_of_get(client, raw):
    paths = [
        f"{SCORING}/{path}" for path in ("capacity/fleet", "history/Link", "capacity/nobody", "alerts?x=1")
    ]
    paths += ["/healthz", "/readyz", "/openapi.json", "/docs", "/metrics", "/", "/alerts", "/nothing"]
    for path in paths:
        client.get(path)  # the first answer is not compressed
        asked, head = client.get(path), client.head(path)
        assert head.status_code == asked.status_code and head.content == b"", path
        assert head.headers.keys() == asked.headers.keys()
        assert head.headers["content-type"] == asked.headers["content-type"]
        raw.request("HEAD", path)
        assert raw.getresponse().read() == b""  # the connection stays open


def test_every_error_is_a_page_in_a_browser(served, client, monkeypatch):
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with (
        asking(served, Settings(key=KEY, requests_per_minute=2)) as without_key,
        asking(served, raise_server_exceptions=False) as failing,
    ):
        failing.app.state.answers.publication = lambda: 1 / 0
        answers = [
            (401, without_key.get(f"{SCORING}/alerts", headers=browser)),
            (401, without_key.get("/", headers=browser)),
            (429, without_key.get("/", headers=browser)),
            (404, client.get(f"{SCORING}/capacity/nobody", headers=browser)),
            (404, client.get("/a/b//nowhere", headers=browser)),
            (405, client.post("/alerts", headers=browser)),
            (421, client.get("/alerts", headers={**browser, "Host": "evil.example"})),
            (422, client.get(f"{SCORING}/alerts?x=%3Cscript%3E", headers=browser)),
            (422, client.get("/agent", headers=browser)),
            (500, failing.get(f"{SCORING}/alerts", headers=browser)),
        ]
        monkeypatch.setattr(ServedDatabase, "is_away", True)
        answers.append((503, client.get(f"{SCORING}/alerts", headers=browser)))
    for status, answer in answers:
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "<script>" not in answer.text.partition("<main")[2].partition("</main>")[0]
        way_back = re.search(r'<a href="([^"]+)">Back to the fleet</a>', answer.text)[1]
        assert answer.url.join(way_back).path == "/", (answer.url, way_back)
    assert "WWW-Authenticate" in answers[0][1].headers


def test_docs_page_shows_swagger_ui_without_external_files(port, browser):
    """The browser shows the document, contacts no other host and reports no violation of the policy."""
    asked, complaints = [], []
    with contextlib.closing(browser.new_page()) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(f"http://127.0.0.1:{port}/docs")
        page.click("#operations-scoring-fleet")
        page.click("text=Try it out")
        page.click("text=Execute")
        page.wait_for_selector(".responses-table.live-responses-table")
        assert "composite_score" in page.inner_text(".live-responses-table")
    assert complaints == []
    here = f"http://127.0.0.1:{port}"
    assert {url.removeprefix(here) for url in asked if not url.startswith(("data:", "blob:"))} == {
        *("/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/openapi.json"),
        f"{SCORING}/capacity/fleet?sort=-composite_score&offset=0",
    }


# --- the role --------------------------------------------------------------------------------------------------------


def test_role_may_only_read_the_marts(sample, marts):
    relations = marts.execute(
        """
        select nspname as schema, relname as name, has_table_privilege(%(role)s, pg_class.oid, 'select') as may_read,
            has_table_privilege(
                %(role)s, pg_class.oid, 'insert, update, delete, truncate, references, trigger'
            ) as may_write
        from pg_class
        join pg_namespace on pg_namespace.oid = relnamespace
        where relkind in ('r', 'v', 'm', 'f', 'p') and nspname !~ '^pg_' and nspname <> 'information_schema'
        """,
        {"role": READER},
    ).fetchall()
    assert {row["schema"] for row in relations} == {
        SCHEMA, f"{SCHEMA}_intermediate", f"{SCHEMA}_staging", "cirislens",
    }  # fmt: skip
    for row in relations:
        assert (row["may_read"], row["may_write"]) == (row["schema"] == SCHEMA, False), row
    schemas = marts.execute(
        "select nspname, has_schema_privilege(%s, oid, 'create') as may_create, has_schema_privilege(%s, oid, 'usage')"
        " as may_use from pg_namespace where nspname !~ '^pg_'",
        [READER, READER],
    ).fetchall()
    assert not any(row["may_create"] for row in schemas)
    assert {row["nspname"] for row in schemas if row["may_use"]} == {SCHEMA, "public", "information_schema"}
    rights = marts.execute(
        "select has_database_privilege(%s, current_database(), 'create, temporary') as may_create, rolsuper,"
        " rolcreaterole, rolcreatedb from pg_roles where rolname = %s",
        [READER, READER],
    ).fetchone()
    assert not any(rights.values())


@pytest.mark.parametrize(("n_sessions", "is_away"), [(1, False), (0, True)])
def test_pool_that_cannot_grow_keeps_its_sessions(project, monkeypatch, n_sessions, is_away):
    """The role has reached its limit of connections."""
    with opened(project, 4) as database:
        monkeypatch.setattr(database._pool, "get_stats", lambda: {"pool_size": n_sessions})
        database._on_reconnect_failed(database._pool)
        assert database.is_away is is_away


def test_sessions_are_read_only_with_a_time_limit(project, sample, own_server):
    owner = load_project(REPOSITORY, sample.profiles_dir)  # a role that may write
    with opened(owner, 1, 0.3) as database:
        settings_ = database.read(
            lambda c: [
                c.execute(f"show {name}").fetchone()[0]
                for name in (
                    "transaction_read_only",
                    "transaction_isolation",
                    "timezone",
                    "statement_timeout",
                )
            ]
        )
        assert settings_ == ["on", "repeatable read", "UTC", "300ms"]
        with pytest.raises(Problem) as refusal:
            database.read(lambda c: c.execute(f"delete from {SCHEMA}.dim_agents"))
        assert refusal.value.kind == "database-away"
        with pytest.raises(Problem) as slow:
            database.read(lambda c: c.execute("select pg_sleep(5)"))
        assert slow.value.kind == "database-busy"
        assert database.read(lambda c: c.execute("select 1").fetchone()) == (1,)


def test_a_session_that_was_cut_is_replaced(served, client, sample):
    cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = %s"
    client.get("/readyz")
    with sample.connect() as connection:
        assert connection.execute(cut, [READER]).fetchone()[0] > 0
    assert client.get(f"{SCORING}/capacity/{ECHO}?window_days=30").status_code == 200
    assert client.get("/readyz").status_code == 200


# --- loss of the database --------------------------------------------------------------------------------------------


def pg_ctl(started: Server, *arguments: str) -> None:
    data = Path(started.socket_folder)
    command = [started.programs / "pg_ctl", "-D", data, "-w", "-l", data / "log", *arguments]
    owner = data.stat()
    account = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(
        command, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **account
    )


def test_the_database_stops_and_starts_under_load(project, own_server, capfd):
    paths = [
        f"{SCORING}/capacity/fleet",
        f"{SCORING}/capacity/Link",
        f"{SCORING}/factors/Echo",
        "/readyz",
        "/",
    ]
    seen: list[tuple[float, int, float, str | None]] = []
    stop = threading.Event()

    def ask_on(port: int, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        while not stop.is_set():
            begun = time.monotonic()
            connection.request("GET", paths[number % len(paths)])
            response = connection.getresponse()
            response.read()
            seen.append((begun, response.status, time.monotonic() - begun, response.headers["retry-after"]))
            number += 1
        connection.close()

    with (
        opened(project, 4) as database,
        running(create_app(database, Settings(version_seconds=0.2))) as port,
    ):
        asking = [threading.Thread(target=ask_on, args=(port, number)) for number in range(8)]
        for thread in asking:
            thread.start()
        try:
            time.sleep(1)
            pg_ctl(own_server, "-m", "fast", "stop")
            stopped = time.monotonic()
            time.sleep(2)
            started = time.monotonic()
            pg_ctl(own_server, "-o", f'-h "" -k "{own_server.socket_folder}"', "start")
            back = time.monotonic()
            time.sleep(2.5)
        finally:
            stop.set()
            for thread in asking:
                thread.join()
    assert {status for _, status, _, _ in seen} == {200, 503}
    assert all(retry_after == "2" for _, status, _, retry_after in seen if status == 503)
    away = [answer for answer in seen if stopped + 0.5 < answer[0] < started - 0.2]
    assert len(away) > 100 and {status for _, status, _, _ in away} == {503}
    assert max(seconds for _, _, seconds, _ in seen) < 3
    assert sorted(seconds for _, _, seconds, _ in away)[len(away) // 2] < 0.2
    again = [status for begun, status, _, _ in seen if begun > back + 1.5]
    assert len(again) > 20 and set(again) == {200}
    said = capfd.readouterr().err
    assert said.count("is away") == said.count("is back, after") == 1


def test_a_server_begins_without_its_database(project, own_server, tmp_path):
    profile = (project.profiles_dir / "profiles.yml").read_text()
    (tmp_path / "profiles.yml").write_text(profile.replace("port: ", "port: 1"))
    with (
        opened(load_project(REPOSITORY, tmp_path), 1, 1) as database,
        asking(database, SETTINGS) as client,
    ):
        refused(client, "/readyz", 503, "database-away")
        assert client.get("/healthz").status_code == 200
        page = client.get("/")
        assert (page.status_code, page.headers["retry-after"]) == (503, "2")
        assert "The database is away" in page.text


# --- the command -----------------------------------------------------------------------------------------------------


def test_an_address_that_is_taken_is_refused(project):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = command_line.invoke("serve", "--port", taken.getsockname()[1], *command_line.at(project))
    error, _ = command_line.refused(result, 2)
    assert "Cannot serve on 127.0.0.1, port" in error
