"""Compare all surfaces: each must give the same agent the same scores under the same words at the same as-of.

A surface is a page, the report, the terminal, `explain`, the API, a CSV, a query of Grafana, the metrics or the
semantic layer. Each reader below returns what its surface says about each agent. test_shown_numbers.py compares every
number with the marts.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from ciris_scoring.basics.decimals import cut
from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.api.models import ScoreBase
from command_line import command, succeeded
from conftest import REPOSITORY, Database
from html_text import cells, text_of
from serving import SCORING, asking, opened
from test_semantic_layer import semantic_layer
from test_shown_numbers import FLEET_QUERY, expanded

Said = dict[str, str]
"""Names of the statements of a surface about an agent."""
WORDS = ("capacity score", "steady score", "category", "guidance", "verdict")
LABELS = {
    "high_fragility": "High Fragility",
    "moderate": "Moderate Capacity",
    "healthy": "Healthy Capacity",
    "high_capacity": "High Capacity",
}
BANNED = re.compile(r"long[- ]run|to decide by|\balone\b|this week|steady category|category_steady", re.IGNORECASE)
"""Words that surfaces must not use for the two scores."""


@dataclass(frozen=True)
class World:
    """The sample, and a client of its server."""

    database: Database
    client: TestClient
    marts: psycopg.Connection
    folder: Path

    def stdout(self, *arguments: object) -> str:
        return succeeded(command(self.database, *arguments)).stdout

    def page(self, path: str) -> str:
        return self.client.get(path, headers={"Accept": "text/html"}).text

    @property
    def agents(self) -> dict[str, str]:
        """Beginning of the hash of each agent, by name."""
        rows = self.marts.execute("select agent_name, left(agent_id_hash, 8) as hash from dim_agents").fetchall()
        return {row["agent_name"]: row["hash"] for row in rows}


def of_row(row: dict[str, Any], capacity: str = "capacity_score", steady: str = "capacity_score_steady") -> Said:
    """Return what a row of data says. Numbers are in full, and the category has the name of the marts."""
    said = {"capacity score": cut(float(row[capacity]), 3), "category": LABELS[row["category"]]}
    said |= {"steady score": cut(float(row[steady]), 3), "verdict": row["verdict"]}
    return said | ({"guidance": row["guidance"]} if row.get("guidance") else {})


def fleet_page(world: World) -> Iterator[tuple[str, Said]]:
    for path in ("/", "report"):
        page = world.page(path) if path == "/" else world.stdout("report", "--output", "-")
        rows = [row for row in cells(page) if len(row) == 15]
        assert rows[0][1:5] == ["Capacity score", "Category", "Why, and what to do", "Verdict"]
        for row in rows[1:]:
            category = next(label for label in LABELS.values() if row[2].startswith(label))
            yield (
                row[0].split()[-1],
                {
                    "capacity score": row[1].split()[0],
                    "category": category,
                    "guidance": row[2].removeprefix(category).strip(),
                    "verdict": row[4].split()[0].lower(),
                    "steady score": re.search(r"Steady score (\S+),", row[4])[1],
                },
            )


def agent_page(world: World) -> Iterator[tuple[str, Said]]:
    for agent in world.agents.values():
        page = text_of(world.page(f"/agent?agent_id={agent}"))
        found = re.search(r"(\S+) capacity score \[.*?\]\s+(\w+ \w+)\s+([^\n]*?)(?: could[^\n]*)?\n", page)
        verdict = re.search(r"(\w+) for Standard operation .*?: steady score (\S+),", page)
        yield agent, {
            "capacity score": found[1], "category": found[2], "guidance": found[3].strip(),
            "verdict": verdict[1].lower(), "steady score": verdict[2],
        }  # fmt: skip


def explanation(world: World) -> Iterator[tuple[str, Said]]:
    for agent in world.agents.values():
        text = " ".join(world.stdout("explain", agent).split())
        capacity, category, guidance = re.search(
            r"Capacity score: (\S+), ([\w ]+): ([\w -]*?) (?:95 %|Factors)", text
        ).groups()
        verdict, steady = re.search(r"(\w+) for Standard operation .*?: steady score (\S+),", text).groups()
        yield agent, {
            "capacity score": capacity, "category": category, "guidance": guidance.capitalize(),
            "verdict": verdict.lower(), "steady score": steady,
        }  # fmt: skip


def terminal(world: World) -> Iterator[tuple[str, Said]]:
    lines = world.stdout("fleet").splitlines()
    [heading] = [line for line in lines if line.startswith("agent ")]
    places = {name: heading.index(name) for name in ("capacity score", "category", "verdict", "steady score")}
    for line in lines:
        if found := re.match(r"\w+ \((\w{8})\) ", line):
            yield (
                found[1],
                {
                    "capacity score": line[places["capacity score"] :].split()[0],
                    "category": re.split("  +", line[places["category"] :])[0],
                    "verdict": line[places["verdict"] :].split()[0],
                    "steady score": line[places["steady score"] :].split()[0],
                },
            )


def csv_of_command(world: World) -> Iterator[tuple[str, Said]]:
    for row in csv.DictReader(io.StringIO(world.stdout("fleet", "--csv"))):
        yield row["agent_id_hash"][:8], of_row(row)


def json_of_report(world: World) -> Iterator[tuple[str, Said]]:
    for row in json.loads(world.stdout("report", "--json"))["agents"]:
        yield row["agent_id_hash"][:8], of_row({**row, "verdict": row["verdict"]["verdict"]})


def api(world: World) -> Iterator[tuple[str, Said]]:
    assert "Capacity score" in ScoreBase.model_fields["composite_score"].description
    for row in world.client.get(f"{SCORING}/capacity/fleet").json()["agents"]:
        yield row["agent_id_hash"][:8], of_row(row, "composite_score")


def csv_of_api(world: World) -> Iterator[tuple[str, Said]]:
    text = world.client.get(f"{SCORING}/capacity/fleet?format=csv", headers={"Accept": "text/html, */*"}).text
    for row in csv.DictReader(io.StringIO(text)):
        yield row["agent_id_hash"][:8], of_row(row, "composite_score")


def grafana(world: World) -> Iterator[tuple[str, Said]]:
    for row in world.marts.execute(expanded(FLEET_QUERY)).fetchall():
        yield row["hash"][:8], of_row(row, "capacity score", "steady score")


def layer(world: World) -> Iterator[tuple[str, Said]]:
    by = [f"capacity_score__{name}" for name in ("agent_label", "category", "verdict")]
    query = semantic_layer(world.database, world.folder)
    for row in query(["ciris_mean_capacity_7d", "ciris_median_steady_7d"], *by):
        named = {"category": row[by[1]], "verdict": row[by[2]]}
        yield row[by[0]][-9:-1], of_row({**row, **named}, "ciris_mean_capacity_7d", "ciris_median_steady_7d")


SURFACES: tuple[Callable[[World], Iterator[tuple[str, Said]]], ...] = (
    *(
        fleet_page,
        agent_page,
        explanation,
        terminal,
        csv_of_command,
        json_of_report,
        api,
        csv_of_api,
        grafana,
        layer,
    ),
)


@pytest.fixture(scope="module")
def world(scored_sample: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with (
        scored_sample.connect() as marts,
        opened(load_project(REPOSITORY, scored_sample.profiles_dir)) as served,
        asking(served) as client,
    ):
        marts.row_factory = dict_row
        marts.execute(f"set search_path to {SCHEMA}")
        yield World(scored_sample, client, marts, tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def expected(world: World) -> dict[str, Said]:
    """Return the values of the marts for each agent at the newest as-of in the window of 7 days."""
    rows = world.marts.execute(
        "select * from capacity_overview join dim_capacity_categories using (category)"
        " where window_days = 7 and as_of = (select max(as_of) from fct_fleet_capacity)"
    ).fetchall()
    return {row["agent_id_hash"][:8]: of_row(row) for row in rows}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda one: one.__name__)
def test_every_surface_says_the_same_about_each_agent(world, expected, surface):
    found: dict[str, Said] = {}
    for agent, said in surface(world):
        assert set(said) >= set(WORDS) - {"guidance"}
        assert {word: expected[agent][word] for word in said} == said
        found[agent] = said
    assert found.keys() == expected.keys() and len(found) == 14


def test_every_surface_counts_the_same_agents(world, expected):
    """Page, terminal, API and metrics count agents by category and by verdict."""
    categories = Counter(said["category"] for said in expected.values())
    verdicts = Counter(said["verdict"] for said in expected.values())
    page, terminal = text_of(world.page("/")), " ".join(world.stdout("fleet").split())
    summary = world.client.get(f"{SCORING}/capacity/fleet").json()["summary"]
    metrics = Counter[tuple[str, str]]()
    for family in text_string_to_metric_families(world.client.get("/metrics").text):
        for one in family.samples:
            if one.labels.get("window_days") == "7" and one.name != "ciris_scoring_alerts":
                label = one.labels.get("category") or one.labels["verdict"]
                metrics[one.name.removeprefix("ciris_scoring_"), label] = int(one.value)
    for name, label in LABELS.items():
        assert f"{categories[label]} {label}" in page and f"{categories[label]} {label} (" in terminal
        assert (summary[name], metrics["agents", name]) == (categories[label],) * 2
    for name, n in summary["verdicts"].items():
        assert f"{n} {name.capitalize()}" in page and f"{n} {name}" in terminal
        assert (n, metrics["verdicts", name]) == (verdicts[name],) * 2


def test_no_surface_has_another_word_for_a_score(world):
    said = {
        **{path: world.page(path) for path in ("/", "/agent?agent_id=Mire", "/compare?agent_id=Mire&other_id=Link")},
        **{path: world.page(path) for path in ("/alerts", "/red-flags", "/glossary", "/parameters")},
        **{" ".join(one): world.stdout(*one) for one in (["fleet"], ["explain", "Mire"], ["report", "--output", "-"])},
        "openapi": world.client.get("/openapi.json").text,
        "metrics": world.client.get("/metrics").text,
        "grafana": (REPOSITORY / "dashboards/grafana/ciris_capacity.json").read_text(),
        **{
            name: (REPOSITORY / name).read_text()
            for name in (
                *("README.md", "docs/deciding.md", "docs/serving.md", "docs/glossary.md", "docs/queries.md"),
                *("models/marts/_semantic_layer.yml", "models/marts/_marts__models.yml", "models/columns.md"),
            )
        },
    }
    found = {
        (name, match[0])
        for name, text in said.items()
        for match in BANNED.finditer(re.sub(r"(chance|component) alone", "", text))
    }
    assert found == set()
