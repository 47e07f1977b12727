"""Tests of Grafana's dashboard on the scored sample. Macros and variables in the queries are replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime

import psycopg
import pytest
import yaml
from psycopg.rows import dict_row, tuple_row

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts import fleet
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.words import LOSS_WORDS, named
from conftest import REPOSITORY, Database
from pipeline import MARTS

DASHBOARD = json.loads((REPOSITORY / "dashboards/grafana/ciris_capacity.json").read_text())
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
LINK = "4107c26fee8baae4"
AS_OF = SAMPLE["as_of"]
FROM, TO = "2026-04-01T00:00:00Z", "9999-12-31T00:00:00Z"  # the sample's runs are dated now


def expanded(query: str, threshold: float | None = None, agent: str = LINK, window_days: int = 7) -> str:
    """Return a query as Grafana sends it."""
    values = {"schema": SCHEMA, "window_days:sqlstring": f"'{window_days}'", "agent:sqlstring": f"'{agent}'"}
    values["threshold:sqlstring"] = "''" if threshold is None else f"'{threshold}'"
    query = re.sub(r"\$__timeFilter\((\w+|coalesce\(.*?\))\)", rf"\1 between '{FROM}' and '{TO}'", query)
    query = re.sub(r"\$\{([^}]+)\}", lambda found: values[found[1]], query)
    assert "$" not in query, query
    return query


@pytest.fixture
def marts(scored_sample: Database) -> Iterator[psycopg.Connection]:
    with scored_sample.connect() as connection:
        connection.row_factory = dict_row
        yield connection


@pytest.mark.parametrize("title", PANELS)
def test_every_query_returns_rows(marts, title):
    panel = PANELS[title]
    assert panel["description"]
    for target in panel["targets"]:
        found = marts.execute(expanded(target["rawSql"])).fetchall()
        if title not in ("Red flags of selective reporting", "Repairs and refusals", "By issue"):
            assert found and found[0]
        if target["format"] == "time_series" and found:
            assert "time" in found[0] and [row["time"] for row in found] == sorted(
                row["time"] for row in found
            )


@pytest.mark.parametrize(
    "name", [name for name, variable in VARIABLES.items() if variable["type"] == "query"]
)
def test_every_variable_has_values(marts, name):
    assert marts.execute(expanded(VARIABLES[name]["query"])).fetchall()


@pytest.mark.parametrize(("threshold", "window_days"), [(0.3, 7), (0.85, 30)])
def test_dashboard_verdicts_equal_those_of_other_readers(marts, threshold, window_days):
    [target] = PANELS["Agents at the newest as-of"]["targets"]
    query = expanded(target["rawSql"], threshold, window_days=window_days)
    marts.row_factory = tuple_row
    as_of = datetime.fromisoformat(AS_OF)
    expected = {
        score.agent_id_hash: (*judged(score, threshold), {one.name for one in score.raised})
        for score in fleet.scores(Marts(marts, MARTS), as_of, window_days)
    }
    marts.row_factory = dict_row
    shown = marts.execute(query).fetchall()
    assert {
        row["hash"]: (row["verdict"], row["threshold"], set(filter(None, (row["raised"] or "").split(", "))))
        for row in shown
    } == expected


def judged(score: fleet.Score, threshold: float | None) -> tuple[str, float]:
    found = score.verdict(threshold)
    return found.verdict, found.threshold


def test_alert_rules_return_one_number(marts):
    file = yaml.safe_load((REPOSITORY / "dashboards/grafana/alert_rules.yaml").read_text())
    rules = [rule for group in file["groups"] for rule in group["rules"]]
    assert len({rule["uid"] for rule in rules}) == len(rules) == 4
    for rule in rules:
        assert [step["refId"] for step in rule["data"]] == ["A", "B", "C"] and rule["condition"] == "C"
        [row] = marts.execute(rule["data"][0]["model"]["rawSql"]).fetchall()
        assert float(row["value"]) >= 0


def test_charts_annotate_runs(marts):
    [annotation] = DASHBOARD["annotations"]["list"]
    [run, *_] = marts.execute(expanded(annotation["target"]["rawSql"])).fetchall()
    assert run["text"].startswith("published as of 2026-06-15")


@pytest.mark.parametrize("title", ["Points lost by loss component", "What changed since one window ago"])
def test_dashboard_describes_components_in_words(title):
    [override] = [
        o for o in PANELS[title]["fieldConfig"]["overrides"] if o["matcher"]["options"] == "loss_component"
    ]
    [mapping] = override["properties"][0]["value"]
    assert {part: shown["text"] for part, shown in mapping["options"].items()} == {
        part: named(part) for part in LOSS_WORDS
    }


def test_values_of_variables_are_quoted_in_sql():
    """Values of variables, which a viewer can choose or put into the URL, are quoted in the queries."""
    queries = [target["rawSql"] for panel in PANELS.values() for target in panel["targets"]]
    queries += [variable["query"] for variable in VARIABLES.values()]
    used = {found for query in queries for found in re.findall(r"\$\{([^}]+)\}", query)}
    raw = {name for name in used if not name.endswith(":sqlstring")}
    assert {VARIABLES[name]["type"] for name in raw} == {"constant"}


def test_charts_group_by_label_instead_of_name():
    """Two agents can have the same name."""
    queries = [target["rawSql"] for panel in PANELS.values() for target in panel["targets"]]
    assert not [query for query in queries if "agent_name" in query]


def test_panels_have_unique_ids_and_do_not_overlap():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
