"""Compare what all surfaces show with the marts: API, pages, report, terminal, `explain`, CSV, metrics, Grafana and the
semantic layer. Each must give an agent the same scores, category and verdict under the same words.

Each reader below is a function that yields the shown values as `Shown`: mart, key of the row, column and value. One
test compares them with the marts. The sample is scored with the threshold 0.6 and then again with 0.8, so the newest
rows have another threshold than the final rows.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from ciris_scoring.kinds import KINDS
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import VERDICTS
from ciris_scoring.names import FACTORS
from ciris_scoring.numbers_as_text import cut
from ciris_scoring.show import explain, view
from ciris_scoring.show import words as page_words
from ciris_scoring.show.api.models import LensScore
from ciris_scoring.show.formats import json_text, table_text
from ciris_scoring.show.report import read_report
from ciris_scoring.show.tables import fleet_table
from conftest import REPOSITORY, Database
from html_text import cells, text_of, with_names
from pipeline import MARTS, SCORED_MARTS, score
from serving import LINK, SCORING, asking, explanation
from test_semantic_layer import semantic_layer

Row = dict[str, Any]
NEWEST = datetime.fromisoformat(SAMPLE["as_of"])
FINAL = NEWEST - timedelta(days=4)
"""An as-of whose scores were final at the second run. One agent has too few traces for a score at this as-of."""
AS_OFS = (NEWEST, FINAL)
NON_EXEMPT = ("SPEAK", "TOOL", "MEMORIZE", "FORGET")


class Shown(NamedTuple):
    """A shown value, and the mart, row and column that it must equal."""

    mart: str
    key: Mapping[str, Any]
    column: str
    value: Any


# --- Grafana -------------------------------------------------------------------------------------------------------

DASHBOARD = json.loads((REPOSITORY / "dashboards/grafana/ciris_capacity.json").read_text())
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
[FLEET_QUERY] = [target["rawSql"] for target in PANELS["Agents at the newest as-of"]["targets"]]


def expanded(query: str, window_days: int = 7) -> str:
    """Return a query as Grafana sends it, with values in place of its variables."""
    values = {"schema": SCHEMA, "window_days:sqlstring": f"'{window_days}'", "agent:sqlstring": f"'{LINK}'"}
    query = re.sub(r"\$__timeFilter\((\w+|coalesce\(.*?\))\)", r"\1 between '2026-04-01Z' and '9999-12-31Z'", query)
    query = re.sub(r"\$\{([^}]+)\}", lambda found: values[found[1]], query)
    assert "$" not in query, query
    return query


# --- expected values -------------------------------------------------------------------------------------------------

# Queries of values that readers compute from the marts. In `Shown`, the name of a query replaces the mart.
COMPUTED = {
    "fct_capacity_scores": f"select * from {SCORED_MARTS}",
    "scores": f"""
        select scores.*, categories.label as category_label, categories.guidance,
            categories.label || ' ' || categories.guidance as "category and guidance",
            compared_as_of, score_before, change, not_comparable_because,
            case when agents.last_traced_at < scores.as_of then
                to_char(extract(epoch from scores.as_of - agents.last_traced_at) / 86400, 'FM9990.0') || ' d'
            end as silent,
            (
                select count(*) from fct_trace_checks as v
                where v.agent_id_hash = scores.agent_id_hash and is_counted
                and selected_action = any(%(non_exempt)s)
                and traced_at >= window_start and traced_at < scores.as_of
            ) as non_exempt_traces
        from (select * from {SCORED_MARTS}) as scores
        join dim_agents as agents using (agent_id_hash)
        left join dim_capacity_categories as categories on categories.category = scores.category
        left join fct_score_comparisons as compared
            on compared.agent_id_hash = scores.agent_id_hash and compared.as_of = scores.as_of
            and compared.window_days = scores.window_days and compared_with = 'window'
        where scores.as_of = any(%(as_ofs)s)
    """,
    "lost": "select agent_id_hash, as_of, window_days, array_agg(loss_component order by rank) as loss_components"
    " from fct_score_attribution where points_lost >= 0.001 group by 1, 2, 3",
    "alert counts": "select as_of, window_days, kind, severity, count(*) as n from fct_capacity_alerts"
    " group by 1, 2, 3, 4",
    "verdicts": "select as_of, window_days, verdict, count(*) as n from fct_verdicts group by 1, 2, 3",
    "runs": "select *, to_char(seconds, 'FM999,999,990') as whole_seconds from fct_scoring_runs",
    "issues": "select issue, sum(n) as n, count(distinct agent_id_hash) as n_agents from fct_data_quality group by 1",
    # Alerts and red flags, each with the previous as-of.
    "raised": """
        select raised.*, before from (
            select agent_id_hash, window_days, as_of, kind as name, severity from fct_capacity_alerts
            union
            select agent_id_hash, window_days, as_of, red_flag, 'red_flag' from fct_red_flags
        ) as raised
        join (
            select as_of, window_days, lag(as_of) over (partition by window_days order by as_of) as before
            from fct_fleet_capacity
        ) as published using (as_of, window_days)
        order by as_of, severity, name
    """,
}


class Expected:
    """Rows of the marts and of `COMPUTED`, found by any of their columns."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.rows, self.index = cache(self._rows), cache(self._index)
        self.add_raised()

    def _rows(self, mart: str) -> list[Row]:
        query = COMPUTED.get(mart, f"select * from {mart}")
        values = {"as_ofs": list(AS_OFS), "non_exempt": list(NON_EXEMPT)}
        return self.connection.execute(query, values).fetchall()

    def _index(self, mart: str, columns: tuple[str, ...]) -> dict[tuple, list[Row]]:
        """Return the rows of a mart by the values of the given columns."""
        index = defaultdict(list)
        for row in self.rows(mart):
            index[tuple(row[name] for name in columns)].append(row)
        return index

    def found(self, mart: str, key: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a mart whose columns have the values of a key."""
        return self.index(mart, tuple(key)).get(tuple(key.values()), [])

    def add_raised(self) -> None:
        """Add to each alert and red flag the as-of since which it has been raised without a break, or None if this is
        the oldest as-of. Add to each score the names and titles of its alerts and red flags.
        """
        since: dict[tuple, datetime | None] = {}
        of_score = defaultdict(list)
        for row in self.rows("raised"):
            of = (row["agent_id_hash"], row["window_days"], row["name"])
            begun = since.get((*of, row["before"]), row["as_of"]) if row["before"] else None
            row["since"] = since[*of, row["as_of"]] = begun
            row["reviews"] = row["name"] != "broken_chain" or row["severity"] == "critical"
            row["title"] = page_words.raised(row["name"])
            of_score[row["agent_id_hash"], row["as_of"], row["window_days"]].append(row)
        for row in self.rows("scores"):
            raised = of_score[row["agent_id_hash"], row["as_of"], row["window_days"]]
            row["names"] = sorted(one["name"] for one in raised)
            row["titles"] = " ".join(one["title"] for one in raised)


def is_shown(value: Any, shown: Any, column: str) -> bool:
    """Return whether a shown value is the value of the mart. In JSON it must be exact. In texts, scores are cut to
    three decimals, and bounds have two: lower ones are cut, upper ones rounded up.
    """
    if isinstance(value, datetime) and isinstance(shown, str):
        return datetime.fromisoformat(shown) in (value, value.replace(microsecond=0))
    if not isinstance(shown, str) or isinstance(value, str):
        return bool(shown == value)
    if value is None or shown in ("", "-", "–"):
        return value is None and shown in ("", "-", "–")
    digits = shown.replace(",", "").replace("−", "-")
    places = len(digits.partition(".")[2])
    assert not digits.startswith("+") or value >= 0
    expected = 0 if isinstance(value, int) else 2 if column.endswith(("_low", "_high", "_bound", "z")) else 3
    is_count = places == 0 and float(value).is_integer()
    assert places == expected or is_count or column == "verdict_threshold", (column, shown)
    if column.endswith("_high") and places == 2:
        return float(digits) - 0.01 < value <= float(digits)
    return cut(float(value), places) == digits.removeprefix("+")


# --- readers: API ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class At:
    """The as-of and window of the sample that a reader reads, and the client and the connection that it uses."""

    client: TestClient
    connection: psycopg.Connection
    as_of: datetime
    window_days: int
    database: Database

    @property
    def key(self) -> Row:
        return {"as_of": self.as_of, "window_days": self.window_days}

    @property
    def marts(self) -> Marts:
        return Marts(self.connection, MARTS)

    @property
    def chosen(self) -> view.Chosen:
        return view.choose(self.marts, self.window_days, self.as_of)

    @cached_property
    def agents(self) -> list[str]:
        """The agents that have a row in fct_capacity_scores."""
        query = f"select agent_id_hash from {SCHEMA}.fct_capacity_scores where as_of = %s and window_days = %s"
        return [agent for [agent] in self.connection.execute(query, [self.as_of, self.window_days])]

    def of(self, agent: str, **more: Any) -> Row:
        """Return the key of an agent's rows."""
        return {"agent_id_hash": agent, **self.key, **more}

    def of_cell(self, cell: str, **more: Any) -> Row:
        """Return the key of the agent whose hash begins with the last word of a cell."""
        [agent] = [agent for agent in self.agents if agent.startswith(cell.split()[-1])]
        return self.of(agent, **more)

    def get(self, path: str, **asked: Any) -> Any:
        """Return an answer of the API at the as-of, without the members that differ when a request is repeated."""
        asked = {"as_of": self.as_of.isoformat(), "window_days": self.window_days, **asked}
        params = {name: value for name, value in asked.items() if value is not None}
        response = self.client.get(SCORING + path, params=params)
        assert response.status_code == 200, response.text
        answer = response.json()
        return {name: value for name, value in answer.items() if name not in ("cache", "timestamp", "next")}

    def page(self, path: str, **asked: Any) -> str:
        asked = {"as_of": self.as_of.isoformat(), "window_days": self.window_days, **asked}
        asked = {} if path == "/runs" else asked
        response = self.client.get(path, params=asked, headers={"Accept": "text/html"})
        assert response.status_code == 200, response.text
        return response.text


OF_SCORES = {"composite_score": "capacity_score", "total_traces": "n_traces", "window_end": "as_of"}
"""Columns of fct_capacity_scores whose name in JSON differs, by the name in JSON."""
LISTS = {
    "agents": ("scores", "agent_id_hash"),
    "raised": ("raised", "name"),
    "other_windows": ("raised", "name", "window_days"),
    "history": ("fct_capacity_scores", "as_of"),
    "components": ("fct_factor_components", "component"),
    "loss_components": ("fct_score_attribution", "loss_component"),
    "comparisons": ("fct_score_comparisons", "compared_with"),
    "alerts": ("fct_capacity_alerts", "agent_id_hash", "kind"),
    "red_flags": ("fct_red_flags", "agent_id_hash", "red_flag", "field"),
    "published": ("dim_scoring_parameters", "parameter_name"),
    "parameters": ("dim_scoring_parameters", "parameter_name"),
    "windows": ("dim_scoring_windows", "window_days"),
    "category_bounds": ("dim_capacity_categories", "category"),
    "categories": ("dim_capacity_categories", "category"),
}
"""For each list in JSON the mart of its rows, and the columns of the mart's key."""
NOT_OF_MARTS = {
    "verdict_reason", "cause", "chain_cause", "final_from", "until", "score_left", "steady_difference",
    "permission", "permissions", "events", "traces", "non_exempt_actions", "lowered_by", "failure_mode",
    "missing_traces", "newest_trace_at", "words", "look_for", "silence", "last_score", "explained_as_of",
    "raised_before", "window_events", "n_traces_by_component",
}  # fmt: skip
"""Members of JSON objects that are not compared, because no mart has a column for them."""
NOT_OF_MART = {
    ("fct_capacity_alerts", "since"), ("fct_red_flags", "since"),
}  # fmt: skip
"""Pairs of a mart and a JSON member that is not compared in the rows of this mart only."""
LENS_PARAMETERS = {
    "lambda_C": "lambda_c", "mu_C": "mu_c", "decay_rate": "decay_per_day", "signal_weight": "w_corroborated",
    "min_traces": "min_traces",
}  # fmt: skip
"""Scoring parameters by their names in the lens."""


def walked(found: Mapping[str, Any], mart: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the members of a JSON object and of the objects in it. Each member must be a column of the mart."""
    spelled = OF_SCORES if mart in ("scores", "fct_capacity_scores") else {}
    for name, value in found.items():
        if name in NOT_OF_MARTS or (mart, name) in NOT_OF_MART:
            continue
        if name == "factors":
            yield from of_factors(value, mart, key)
        elif isinstance(value, Mapping):
            yield from walked(value, mart, key)
        elif name in LISTS and isinstance(value, list):
            yield from of_list(name, value, key)
        else:
            yield Shown(mart, key, spelled.get(name, name), value)


def of_list(name: str, rows: list[Row], key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the members of a list of JSON objects."""
    mart, *columns = LISTS[name]
    if name == "loss_components" and "compared_with" in key:
        mart = "fct_score_changes"
    if name == "history" and "agent_id_hash" not in key:
        mart = "fct_fleet_capacity"
    for row in rows:
        of = {column: row.get(column, key.get(column)) for column in columns}
        if "as_of" in of:
            of["as_of"] = datetime.fromisoformat(of["as_of"])
        yield from walked(row, mart, of if mart.startswith("dim_") else {**key, **of})


def of_factors(factors: Row, mart: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the factors of a score. In JSON they are numbers or objects with components."""
    for name, factor in factors.items():
        if not isinstance(factor, Mapping):
            yield Shown(mart, key, FACTORS[name], factor)
            continue
        yield Shown("scores", key, FACTORS[name], factor["score"])
        yield Shown("scores", key, "n_traces", factor["trace_count"])
        yield Shown("scores", key, "confidence", factor["confidence"])
        for component, value in factor["components"].items():
            of = {**key, "component": component.lower(), "factor": name}
            yield Shown("fct_factor_components", of, "component_value", value)


def lists(answer: Row, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the values in the lists of an answer."""
    for name in answer.keys() & LISTS.keys():
        if isinstance(answer[name], list):
            yield from of_list(name, answer[name], key)


def limited(mart: str, key: Mapping[str, Any], column: str, text: str) -> Iterator[Shown]:
    """Yield a value and its confidence bounds from a text such as "0.590 [0.45, 0.68]"."""
    value, *bounds = re.findall(r"[\d,.]*\d|–|-", text)
    yield Shown(mart, key, column, value)
    for end, bound in zip(("low", "high"), bounds or ["", ""], strict=True):
        yield Shown(mart, key, f"{column}_{end}", bound)


def api_fleet(at: At) -> Iterator[Shown]:
    assert "Capacity score" in LensScore.model_fields["composite_score"].description
    answer = at.get("/capacity/fleet")
    for one in answer["agents"]:
        alone = at.get(f"/capacity/{one['agent_id_hash']}")
        assert alone | {"other_windows": one["other_windows"]} == one
    yield from of_fleet(answer, at)
    for name, n in answer["summary"].items():
        yield Shown("fct_fleet_capacity", at.key, f"n_{name}", n)


def of_fleet(document: Row, at: At) -> Iterator[Shown]:
    """Yield the values in the document of the fleet."""
    yield from lists(document, at.key)
    yield from walked(document["fleet"], "fct_fleet_capacity", at.key)
    for verdict, n in document["verdicts"].items():
        if n:
            yield Shown("verdicts", {**at.key, "verdict": verdict}, "n", n)


def api_factors(at: At) -> Iterator[Shown]:
    for agent in at.agents:
        answer = at.get(f"/factors/{agent}")
        assert answer["metadata"]["non_exempt_actions"] == list(NON_EXEMPT)
        yield from walked(answer, "scores", at.of(agent))


def api_history(at: At) -> Iterator[Shown]:
    asked = {"as_of": at.as_of.isoformat(), "window_days": at.window_days, "days": 400}
    for agent in at.agents:
        path = f"/history/{agent}"
        answer = at.get(path, **asked)
        yield from lists(answer, at.of(agent))
        response = at.client.get(SCORING + path, params={**asked, "format": "csv"})
        for point, line in zip(answer["history"], csv.DictReader(io.StringIO(response.text)), strict=True):
            assert line == {name: "" if point[name] is None else str(point[name]) for name in line}


def api_alerts(at: At) -> Iterator[Shown]:
    answer = at.get("/alerts", threshold=1)
    assert len(answer["agents"]) == answer["alert_count"]
    yield from lists(answer, at.key)
    of_command = json.loads(json_text(view.raised_document(at.marts, at.chosen)))
    assert of_command == {name: answer[name] for name in of_command}


def api_parameters(at: At) -> Iterator[Shown]:
    answer = at.get("/parameters", as_of=None, window_days=None)
    yield from lists(answer, {})
    for theirs, ours in LENS_PARAMETERS.items():
        value = str(answer["parameters"][theirs])
        yield Shown("dim_scoring_parameters", {"parameter_name": ours}, "parameter_value", value)
    for category, guidance in answer["categories"].items():
        yield Shown("dim_capacity_categories", {"category": category}, "guidance", guidance)


def metrics(at: At) -> Iterator[Shown]:
    n_alerts = Counter[tuple[str, str, int]]()
    for family in text_string_to_metric_families(at.client.get("/metrics").text):
        for sample in family.samples:
            name, of = sample.name.removeprefix("ciris_scoring_"), sample.labels
            if name == "agents":
                key = {"as_of": at.as_of, "window_days": int(of["window_days"])}
                column = "insufficient_data" if of["category"] == "none" else of["category"]
                yield Shown("fct_fleet_capacity", key, f"n_{column}", sample.value)
            elif name == "verdicts" and sample.value:
                key = {"as_of": at.as_of, "window_days": int(of["window_days"]), "verdict": of["verdict"]}
                yield Shown("verdicts", key, "n", int(sample.value))
            elif name == "alerts":
                n_alerts[of["kind"], of["severity"], int(of["window_days"])] += int(sample.value)
    for (kind, severity, window_days), n in n_alerts.items():
        key = {"as_of": at.as_of, "window_days": window_days, "kind": kind, "severity": severity}
        yield Shown("alert counts", key, "n", n)


# --- readers: pages --------------------------------------------------------------------------------------------------


def fleet_page(at: At) -> Iterator[Shown]:
    yield from fleet_of(at.page("/"), at)


def report_page(at: At) -> Iterator[Shown]:
    yield from fleet_of(read_report(at.connection, MARTS, at.window_days, json=False), at)


def fleet_of(page: str, at: At) -> Iterator[Shown]:
    """Yield the values of the table of agents, and the counts above it."""
    headings, *rows = [row for row in cells(page) if len(row) == 10]
    assert headings[1:5] == ["Capacity score", "Category", "Why, and what to do", "Verdict"]
    reasons = {said: name for name, said in page_words.NOT_COMPARABLE.items()}
    for row in rows:
        key = at.of_cell(row[0])
        yield from limited("scores", key, "capacity_score", row[1])
        verdict, _, reason = row[4].partition(" ")
        steady = re.search(r"teady score (\d\.\d+)", reason)
        columns = {
            "category and guidance": row[2] if "missing" not in row[2] else None,
            "verdict": verdict.lower(),
            "capacity_score_steady": steady[1] if steady else None,
            "not_comparable_because" if row[5] in reasons else "change": reasons.get(row[5], row[5]),
            "titles": " ".join(row[7].split()),
            "n_traces": row[8],
            "silent": None if row[9] == "–" else row[9],
        }
        for column, value in columns.items():
            yield Shown("scores", key, column, value)
    counts = dict(re.findall(r'<option value="?(\w+)"?>[^<]* \((\d+)\)', page))
    for verdict in VERDICTS:
        if counts[verdict] != "0":
            yield Shown("verdicts", {**at.key, "verdict": verdict}, "n", counts[verdict])
    for category in ("high_fragility", "moderate", "healthy", "high_capacity"):
        yield Shown("fct_fleet_capacity", at.key, f"n_{category}", counts[category])


def agent_page(page: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the values on the page of an agent: score, loss components, factors and components."""
    for title, value in re.findall(r"<div><b>(.*?)</b><b>(.*?)</b>", page):
        yield Shown("scores", key, FACTORS[text_of(title)], value)
    for row in cells(with_names(page)):
        part = {**key, "loss_component": part_of(row[0])}
        if row[0] == "Capacity score":
            yield Shown("scores", key, "capacity_score", row[-2])
        elif len(row) == 4:
            yield Shown("fct_score_attribution", part, "points_lost", row[2])
        elif len(row) == 3 and part_of(row[0]):
            yield Shown("fct_score_changes", {**part, "compared_with": "window"}, "points", row[2])
        elif len(row) == 2:
            yield Shown("fct_factor_components", {**key, "component": part_of(row[0])}, "component_value", row[1])


VERDICT_WORDS = rf"\b({'|'.join(VERDICTS)}) for [^\n:]*?:\s+(.*?)\s*Decision:"
"""Verdict on a permission, and its reason."""


def told(text: str, pattern: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the two scores, category, guidance and verdict in a text about an agent.

    :param pattern: pattern of the words about the capacity score, its category and the guidance.
    """
    verdict, reason = re.search(VERDICT_WORDS, text, re.IGNORECASE | re.DOTALL).groups()
    steady = re.search(r"steady\s+score\s+(\d\.\d+)", reason)
    found = re.search(pattern, text)
    assert found or "too few traces" in text
    capacity, category, guidance = found.groups() if found else (None, None, None)
    columns = {"capacity_score": capacity, "category_label": category, "verdict": verdict.lower()}
    columns |= {"guidance": guidance and guidance.strip().capitalize(), "capacity_score_steady": steady and steady[1]}
    for column, value in columns.items():
        yield Shown("scores", key, column, value)


def part_of(words: str) -> str | None:
    """Return the name in the marts from a text such as "slow recovery (mttr_hours)"."""
    found = re.search(r"\((\w+)\)", words)
    return found and found[1]


def agent_pages(at: At) -> Iterator[Shown]:
    for agent in at.agents:
        page = at.page("/agent", agent_id=f"hash:{agent}", days=365)
        key = at.of(agent)
        yield from told(text_of(page), r"(\S+) capacity score \[.*?\]\s+(\w+ \w+)\s+([^\n]*?)(?: could[^\n]*)?\n", key)
        shown = list(agent_page(page, key))
        yield from shown
        if parts := [one.key["loss_component"] for one in shown if one.mart == "fct_score_attribution"]:
            yield Shown("lost", key, "loss_components", parts)
        for row in (row for row in cells(page) if len(row) == 12 and row[0] != "As of"):
            of = {**key, "as_of": datetime.fromisoformat(row[0].replace(" UTC", "Z"))}
            yield from limited("fct_capacity_scores", of, "capacity_score", f"{row[1]} {row[2]}")
            yield from limited("fct_capacity_scores", of, "capacity_score_steady", f"{row[4]} {row[5]}")
            for column, value in zip((*FACTORS.values(), "n_traces"), row[6:], strict=True):
                yield Shown("fct_capacity_scores", of, column, value)


def raised_on(page: str) -> Iterator[tuple[str, ...]]:
    """Yield severity, title, first as-of, agent and message of each alert and red flag on a page."""
    found = r'<li class="(\w+)">.*?</b> <b>(.*?)</b> <small>(.*?)</small> (<a.*?</a>) <span>(.*?)</span>'
    return (tuple(map(text_of, one)) for one in re.findall(found, page, re.DOTALL))


KINDS_BY_TITLE = {page_words.raised(kind): kind for kind in KINDS}


def alerts_page(at: At) -> Iterator[Shown]:
    for severity, title, since, agent, message in raised_on(at.page("/alerts")):
        name = KINDS_BY_TITLE[title]
        yield Shown("raised", at.of_cell(agent, name=name), "since", raised_since(at, since))
        if severity == "red_flag":
            yield Shown("fct_red_flags", at.of_cell(agent, red_flag=name, message=message), "red_flag", name)
        else:
            yield Shown("fct_capacity_alerts", at.of_cell(agent, kind=name), "severity", severity)
            yield Shown("fct_capacity_alerts", at.of_cell(agent, kind=name), "message", message)


def raised_since(at: At, said: str) -> str | None:
    """Return the time that "since 2026-06-11", "new" or "ongoing" stands for."""
    day = f"{said.removeprefix('since ')}T00:00Z"
    return {"new": at.as_of.isoformat(), "ongoing": None}.get(said, day)


def runs_page(at: At) -> Iterator[Shown]:
    """Yield the values of the tables of runs and of data quality."""
    rows = cells(at.page("/runs"))
    for row in (row for row in rows if len(row) == 8 and row[0] != "Began"):
        moment = datetime.fromisoformat(row[3].replace(" UTC", "Z"))
        key = {"as_of": moment, "n_scores": int(row[5].replace(",", ""))}
        columns = {"outcome": row[2], "command": row[4], "n_late_traces": row[6], "whole_seconds": row[1]}
        yield from (Shown("runs", key, column, value) for column, value in columns.items())
    for row in (row for row in rows if len(row) == 4 and row[0] != "Issue"):
        issue = row[0].removesuffix(" no fault").split()[-1]
        yield Shown("issues", {"issue": issue}, "n", row[1])
        yield Shown("issues", {"issue": issue}, "n_agents", row[2].replace("–", "0"))


# --- readers: commands and Grafana -----------------------------------------------------------------------------------


def report_json(at: At) -> Iterator[Shown]:
    report = json.loads(read_report(at.connection, MARTS, at.window_days, json=True))
    yield from of_fleet(report, at)


def explanations(at: At) -> Iterator[Shown]:
    for agent in at.agents:
        document = explanation(at.connection, agent, at.window_days, at.as_of)
        text = " ".join(explain.page(document).split())
        pattern = r"Capacity score: (\S+), ([\w ]+): ([\w -]*?) (?:95 %|Factors)"
        yield from told(text, pattern, at.of(agent))
        found = json.loads(json_text(document))
        assert (found.pop("since"), found.pop("n_costly_traces") > 0) == (None, bool(found["traces"]))
        yield from walked(found, "scores", at.of(agent))


def terminal(at: At) -> Iterator[Shown]:
    text = fleet_table(at.connection, MARTS, at.as_of, at.window_days, most=None)
    lines = text.splitlines()
    [heading] = [line for line in lines if line.startswith("agent ")]
    columns = {"capacity score": "capacity_score", "category": "category_label", "verdict": "verdict"}
    for line in lines:
        if found := re.match(r"\w+ \((\w{8})\) ", line):
            for name, column in columns.items():
                value = re.split("  +", line[heading.index(name) :])[0]
                value = value.split()[0] if name.endswith("score") else value
                yield Shown("scores", at.of_cell(found[1]), column, None if value == "-" else value)
    above = " ".join(re.search("Category: .*?\n\n", text, re.DOTALL)[0].split())
    for label in ("High Fragility", "Moderate Capacity", "Healthy Capacity", "High Capacity"):
        name = f"n_{label.replace('Capacity', '').strip().lower().replace(' ', '_')}"
        name = {"n_high": "n_high_capacity"}.get(name, name)
        yield Shown("fct_fleet_capacity", at.key, name, re.search(rf"(\d+) {label}\b", above)[1])
    for verdict in VERDICTS:
        if (n := re.search(rf"(\d+) {verdict}\b", above)[1]) != "0":
            yield Shown("verdicts", {**at.key, "verdict": verdict}, "n", n)


def csv_files(at: At) -> Iterator[Shown]:
    """Yield the values in CSV of the command and of the API."""
    asked = {"as_of": at.as_of.isoformat(), "window_days": at.window_days, "format": "csv"}
    of_api = at.client.get(f"{SCORING}/capacity/fleet", params=asked).text
    scores = view.fleet_scores(at.marts, at.chosen)
    of_command = table_text(view.fleet_document(at.marts, at.chosen, scores)["agents"])
    assert set(of_api.splitlines()) == set(of_command.splitlines())
    for text in (of_api, of_command):
        for row in csv.DictReader(io.StringIO(text)):
            key = at.of(row["agent_id_hash"])
            for name in ("capacity_score", "capacity_score_steady"):
                value = float(row[name]) if row[name] else None
                yield Shown("scores", key, name, value)
            for name in ("category", "guidance", "verdict"):
                yield Shown("scores", key, name, row[name] or None)


def layer(at: At) -> Iterator[Shown]:
    """Yield the scores that MetricFlow returns for the window of 7 days."""
    by = [f"capacity_score__{name}" for name in ("agent_label", "category", "verdict")]
    with TemporaryDirectory() as folder:
        query = semantic_layer(at.database, Path(folder))
        rows = query(["ciris_mean_capacity_7d", "ciris_median_steady_7d"], *by)
    for row in rows:
        key = at.of_cell(row[by[0]][-9:-1])
        yield Shown("scores", key, "capacity_score", float(row["ciris_mean_capacity_7d"]))
        yield Shown("scores", key, "capacity_score_steady", float(row["ciris_median_steady_7d"]))
        for column, name in zip(("category", "verdict"), by[1:], strict=True):
            yield Shown("scores", key, column, row[name])


def fleet_panel(at: At) -> Iterator[Shown]:
    """Yield the table of agents, with the published thresholds."""
    with at.connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(expanded(FLEET_QUERY, window_days=at.window_days)).fetchall():
            key = at.of(row["hash"])
            yield Shown("scores", key, "names", sorted(filter(None, (row["raised"] or "").split(", "))))
            for name, column in PANEL_COLUMNS.items():
                yield Shown("scores", key, column, row[name])


PANEL_COLUMNS = {
    "agent": "agent_label", "capacity score": "capacity_score", "low": "capacity_score_low",
    "high": "capacity_score_high", "steady score": "capacity_score_steady", "steady low": "capacity_score_steady_low",
    "steady high": "capacity_score_steady_high", "verdict": "verdict", "threshold": "verdict_threshold",
    "category": "category", "certainty": "category_certainty", "change": "change", **FACTORS,
}  # fmt: skip


# --- comparison of shown numbers with the marts ----------------------------------------------------------------------

Read = Callable[[At], Iterator[Shown]]
RAISED = ("fct_capacity_alerts", "fct_red_flags")
OF_ANY_AS_OF: dict[Read, tuple[str, ...]] = {
    api_fleet: ("scores",), api_factors: ("fct_factor_components",), api_history: ("fct_capacity_scores",),
    api_alerts: RAISED, terminal: ("scores",), csv_files: ("scores",), fleet_page: ("scores",),
    agent_pages: ("fct_factor_components",), alerts_page: RAISED, explanations: ("fct_score_attribution",),
}  # fmt: skip
OF_NEWEST: dict[Read, tuple[str, ...]] = {
    report_json: ("fct_factor_components",), report_page: ("scores",), fleet_panel: ("scores",),
    metrics: ("alert counts",),
}  # fmt: skip
WITHOUT_AS_OF: dict[Read, tuple[str, ...]] = {
    api_parameters: ("dim_scoring_parameters",), runs_page: ("runs", "issues"),
}  # fmt: skip
OF_ONE_WINDOW: dict[Read, tuple[str, ...]] = {layer: ("scores",)}
READERS = {**OF_ANY_AS_OF, **OF_NEWEST, **OF_ONE_WINDOW, **WITHOUT_AS_OF}
"""Marts of which each reader must show all rows; of a reader for one as-of, all rows of this as-of and window."""


@pytest.fixture(scope="module")
def world(sample_copy: Database) -> Iterator[tuple[At, Expected]]:
    score(sample_copy.profiles_dir, NEWEST, {"ciris_verdict_threshold": 0.8})
    with sample_copy.connect() as connection, sample_copy.connect() as marts, asking(sample_copy) as client:
        marts.row_factory = dict_row
        marts.execute(f"set search_path to {SCHEMA}; drop table permissions")
        yield At(client, connection, NEWEST, 7, sample_copy), Expected(marts)


def wrong(reader: Read, at: At, expected: Expected) -> Iterator[str]:
    """Yield the shown values that differ from the marts, and the rows that the reader does not show."""
    seen = set()
    for shown in reader(at):
        found = expected.found(shown.mart, shown.key)
        seen |= {id(row) for row in found}
        values = [row.get(shown.column, "no such column") for row in found]
        if len(found) != 1 or not is_shown(values[0], shown.value, shown.column):
            yield f"{shown}: {values} expected"
    for row in itertools.chain(*map(expected.rows, READERS[reader])):
        is_asked = reader in WITHOUT_AS_OF or all(row[name] == value for name, value in at.key.items())
        if is_asked and id(row) not in seen:
            yield f"not shown: {row}"


@pytest.mark.parametrize(
    ("reader", "as_of", "window_days"),
    [
        *((reader, NEWEST, 7) for reader in READERS),
        *((reader, NEWEST, 30) for reader in OF_NEWEST),
        *((reader, FINAL, 30) for reader in OF_ANY_AS_OF),
    ],
    ids=lambda one: one.__name__ if callable(one) else str(one),
)
def test_shown_numbers_equal_the_marts(world, reader, as_of, window_days):
    at, expected = world
    assert list(wrong(reader, replace(at, as_of=as_of, window_days=window_days), expected)) == []


# --- requested and published thresholds ------------------------------------------------------------------------------


def test_final_rows_keep_verdict_and_threshold(world, marts):
    before = marts.execute(f"select * from {SCORED_MARTS}").fetchall()
    as_ofs = sorted({row["as_of"] for row in before})
    keys = ("agent_id_hash", "as_of", "window_days")
    now = {tuple(row[key] for key in keys): row for row in world[1].rows("fct_capacity_scores")}
    for row in before:
        found = now[tuple(row[key] for key in keys)]
        assert found["parameter_set_id"] == row["parameter_set_id"]
        if row["as_of"] < as_ofs[-3]:
            assert found == row and row["verdict_threshold"] == 0.6
        else:
            assert found["verdict_threshold"] == 0.8


def test_requested_threshold_applies_to_every_as_of(world):
    at, _ = world
    for as_of in AS_OFS:
        asked = {"as_of": as_of.isoformat(), "threshold": 0.3}
        fleet = at.get("/capacity/fleet", **asked)["agents"]
        assert {agent["verdict_threshold"] for agent in fleet} == {0.3}
        assert "for 0.3 in 7 days" in at.page("/", **asked)
    assert explanation(at.connection, at.agents[0], 7, None, 0.3)["verdict_threshold"] == 0.3
    page = at.page("/", threshold="")
    assert "for 0.8 in 7 days" in page and 'name=threshold placeholder="0.8"' in page
    assert "threshold=" not in page.split("<form")[0]


# --- the dashboard of Grafana ----------------------------------------------------------------------------------------


@pytest.fixture
def marts(marts: psycopg.Connection) -> psycopg.Connection:
    """A connection to the sample that was scored once, with the threshold 0.6."""
    marts.row_factory = dict_row
    return marts


def test_every_query_of_the_dashboard_returns_rows(marts):
    for title, panel in PANELS.items():
        assert panel["description"]
        for target in panel["targets"]:
            found = marts.execute(expanded(target["rawSql"])).fetchall()
            if title not in ("Red flags of selective reporting", "Repairs and refusals", "By issue"):
                assert found and found[0], title
            if target["format"] == "time_series" and found:
                times = [row["time"] for row in found]
                assert times == sorted(times), title
    for variable in VARIABLES.values():
        assert variable["type"] != "query" or marts.execute(expanded(variable["query"])).fetchall()
    [annotation] = DASHBOARD["annotations"]["list"]
    [run, *_] = marts.execute(expanded(annotation["target"]["rawSql"])).fetchall()
    assert run["text"].startswith("published as of 2026-06-15")


def test_alert_rules_return_one_number(marts):
    file = yaml.safe_load((REPOSITORY / "dashboards/grafana/alert_rules.yaml").read_text())
    rules = [rule for group in file["groups"] for rule in group["rules"]]
    assert len({rule["uid"] for rule in rules}) == len(rules) == 4
    for rule in rules:
        assert [step["refId"] for step in rule["data"]] == ["A", "B", "C"] and rule["condition"] == "C"
        [row] = marts.execute(rule["data"][0]["model"]["rawSql"]).fetchall()
        assert float(row["value"]) >= 0


def test_values_of_dashboard_variables_are_quoted_in_sql():
    """A viewer can choose the values of variables, also in the URL. Only constants may be inserted without quotes."""
    queries = [target["rawSql"] for panel in PANELS.values() for target in panel["targets"]]
    queries += [variable["query"] for variable in VARIABLES.values()]
    unquoted = {name for query in queries for name in re.findall(r"\$\{(\w+)\}", query)}
    assert {VARIABLES[name]["type"] for name in unquoted} == {"constant"}
