"""Compare every number that people and programs read with the marts: API, pages, report, `explain`, tables, Grafana.

Each reader below yields the values that it shows as `Shown`: the mart, the key of the row, the column and the shown
value. One test compares all of them. The sample was published with a threshold of 0.6 and then run with 0.8, so newest
and final rows have different thresholds.
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
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from ciris_scoring.basics.decimals import cut
from ciris_scoring.basics.kinds import ALERTS
from ciris_scoring.basics.project import Project, load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.serve import explain as explain_module
from ciris_scoring.serve.fleet_table import fleet_tables
from ciris_scoring.serve.pages import words as page_words
from ciris_scoring.serve.report import read_report
from ciris_scoring.serve.spreadsheet import json_text
from conftest import REPOSITORY, Database
from html_text import cells, text_of, with_names
from pipeline import MARTS, score
from serving import SCORING, asking, opened
from test_dashboards import PANELS, expanded

Row = dict[str, Any]
NEWEST = datetime.fromisoformat(SAMPLE["as_of"])
FINAL = NEWEST - timedelta(days=4)
"""An as-of before the restatement window of the second run. One agent has too few traces for a score then."""
AS_OFS = (NEWEST, FINAL)
FACTORS = {"C": "c_score", "I_int": "i_int_score", "R": "r_score", "I_inc": "i_inc_score", "S": "s_score"}
VERDICTS = ("review", "withhold", "keep", "wait", "grant")
NON_EXEMPT = ("SPEAK", "TOOL", "MEMORIZE", "FORGET")


class Shown(NamedTuple):
    """A shown value, and where the marts have it."""

    mart: str
    key: Mapping[str, Any]
    column: str
    value: Any


# --- what the marts have ---------------------------------------------------------------------------------------------

# Values that readers compute from the marts, by names that are not marts.
COMPUTED = {
    "scores": """
        select scores.*, categories.label as steady_label, compared_as_of, score_before, change, not_comparable_because,
            case when probability_at_threshold is not null
                then least(greatest(round(100 * probability_at_threshold), 1), 99) || ' %%' end as sure,
            case when agents.last_traced_at < scores.as_of then
                to_char(extract(epoch from scores.as_of - agents.last_traced_at) / 86400, 'FM9990.0') || ' d'
            end as silent,
            (
                select count(*) from fct_trace_checks as v
                where v.agent_id_hash = scores.agent_id_hash and is_counted
                and selected_action = any(%(non_exempt)s)
                and traced_at >= window_start and traced_at < scores.as_of
            ) as non_exempt_traces
        from fct_capacity_scores as scores
        join dim_agents as agents using (agent_id_hash)
        left join dim_capacity_categories as categories on categories.category = category_steady
        left join fct_score_comparisons as compared
            on compared.agent_id_hash = scores.agent_id_hash and compared.as_of = scores.as_of
            and compared.window_days = scores.window_days and compared_with = 'window'
        where scores.as_of = any(%(as_ofs)s)
    """,
    "attribution": "select a.*, s.agent_name from fct_score_attribution as a"
    " join fct_capacity_scores as s using (agent_id_hash, as_of, window_days)",
    "changes": "select c.*, s.agent_name from fct_score_changes as c"
    " join fct_capacity_scores as s using (agent_id_hash, as_of, window_days)",
    "components": "select c.*, s.agent_name from fct_factor_components as c"
    " join fct_capacity_scores as s using (agent_id_hash, as_of, window_days)",
    "lost": "select agent_id_hash, as_of, window_days, array_agg(loss_component order by rank) as loss_components"
    " from fct_score_attribution where points_lost >= 0.001 group by 1, 2, 3",
    "alert counts": "select as_of, window_days, kind, severity, count(*) as n from fct_capacity_alerts"
    " group by 1, 2, 3, 4",
    "verdicts": "select as_of, window_days, verdict, count(*) as n from fct_capacity_scores group by 1, 2, 3",
    "runs": "select *, to_char(seconds, 'FM999,999,990') as whole_seconds from fct_scoring_runs",
    "issues": "select issue, sum(n) as n, count(distinct agent_id_hash) as n_agents from fct_data_quality group by 1",
    "lowered": """
        select agent_id_hash, as_of, window_days, component, round(amount::numeric, 6) as amount
        from fct_capacity_scores
        cross join lateral (values
            ('d_identity', d_identity * n_traces), ('k_contradiction', k_contradiction * n_traces),
            ('i_chain', (1 - i_chain) * n_traces), ('i_coverage', (1 - i_coverage) * 10 * n_traces),
            ('i_replay', (1 - i_replay) * n_replayed), ('u_unsafe', u_unsafe * n_traces)
        ) as of_component (component, amount)
    """,
    "issue days": "select issue, to_char(period_start at time zone 'UTC', 'MM-DD') as day, sum(n) as n"
    " from fct_data_quality group by 1, 2",
}


class Expected:
    """Rows of the marts and of `COMPUTED`, found by any of their columns."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.kept: dict[str, list[Row]] = {"raised": list(self.raised())}
        self.kept["titles"] = list(self.titles())
        self.indexes: dict[tuple[str, tuple[str, ...]], dict[tuple, list[Row]]] = {}

    def rows(self, mart: str) -> list[Row]:
        if mart not in self.kept:
            query = COMPUTED.get(mart, f"select * from {mart}")
            self.kept[mart] = self.connection.execute(
                query, {"as_ofs": list(AS_OFS), "non_exempt": list(NON_EXEMPT)}
            ).fetchall()
        return self.kept[mart]

    def found(self, mart: str, key: Mapping[str, Any]) -> list[Row]:
        """Return the rows with the given values; there should be one."""
        columns = tuple(sorted(key))
        if (mart, columns) not in self.indexes:
            index = self.indexes[mart, columns] = defaultdict(list)
            for row in self.rows(mart):
                row["shown_label"] = f"{row.get('agent_name')} ({(row.get('agent_id_hash') or '')[:8]})"
                index[tuple(row[name] for name in columns)].append(row)
        return self.indexes[mart, columns].get(tuple(key[name] for name in columns), [])

    def raised(self) -> Iterator[Row]:
        """Yield alerts and red flags, each with the first of its consecutive as-ofs; None if that is the oldest."""
        as_ofs = defaultdict(list)
        for row in self.connection.execute(
            "select as_of, window_days from fct_fleet_capacity order by as_of"
        ):
            as_ofs[row["window_days"]].append(row["as_of"])
        found = self.connection.execute(
            "select agent_id_hash, agent_name, window_days, as_of, kind as name, severity, true as is_alert"
            " from fct_capacity_alerts union select distinct agent_id_hash, agent_name, window_days, as_of, red_flag,"
            " 'red_flag', false from fct_record_signs"
        ).fetchall()
        stood = {(row["agent_id_hash"], row["window_days"], row["name"], row["as_of"]) for row in found}
        for row in found:
            before = [t for t in reversed(as_ofs[row["window_days"]]) if t <= row["as_of"]]
            of = (row["agent_id_hash"], row["window_days"], row["name"])
            standing = list(itertools.takewhile(lambda t, of=of: (*of, t) in stood, before))
            row["since"] = None if len(standing) == len(before) else standing[-1]
            row["reviews"] = (
                row["name"] not in ("low_capacity", "broken_chain") or row["severity"] == "critical"
            )
            row["title"] = page_words.raised(row["name"])
            yield row

    def titles(self) -> Iterator[Row]:
        """Yield the names and titles of the alerts and red flags of each score."""
        of = defaultdict(list)
        for row in sorted(self.kept["raised"], key=lambda row: (row["severity"], row["name"])):
            of[row["agent_id_hash"], row["as_of"], row["window_days"]].append(row)
        for score_ in self.rows("scores"):
            key = {name: score_[name] for name in ("agent_id_hash", "as_of", "window_days")}
            found = of[tuple(key.values())]
            names = sorted(row["name"] for row in found)
            yield {
                **key,
                "agent_name": score_["agent_name"],
                "names": names,
                "raised": " ".join(row["title"] for row in found),
            }


def is_shown(value: Any, shown: Any, column: str) -> bool:
    """Return whether a shown value is the mart's: JSON exactly; in a text bounds have two decimals, scores three."""
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
    return cut(float(value), places) == digits.removeprefix("+")


# --- what each reader shows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class At:
    """Where the readers read: an as-of and a window of the sample."""

    database: Database
    project: Project
    client: TestClient
    connection: psycopg.Connection
    as_of: datetime
    window_days: int

    @property
    def key(self) -> Row:
        return {"as_of": self.as_of, "window_days": self.window_days}

    @property
    def agents(self) -> list[str]:
        """Return the agents that have a row of scores."""
        query = (
            f"select agent_id_hash from {SCHEMA}.fct_capacity_scores where as_of = %s and window_days = %s"
        )
        return [agent for [agent] in self.connection.execute(query, [self.as_of, self.window_days])]

    def of(self, agent: str, **more: Any) -> Row:
        """Return the key of an agent's rows."""
        return {"agent_id_hash": agent, **self.key, **more}

    def get(self, path: str, **asked: Any) -> Any:
        """Return an answer of the API at the as-of, without the members that change with each answer."""
        asked = {"as_of": self.as_of.isoformat(), "window_days": self.window_days, **asked}
        params = {name: value for name, value in asked.items() if value is not None}
        response = self.client.get(SCORING + path, params=params)
        assert response.status_code == 200, response.text
        answer = response.json()
        return {name: value for name, value in answer.items() if name not in ("cache", "timestamp", "next")}

    def page(self, path: str, **asked: Any) -> str:
        asked = {"as_of": self.as_of.isoformat(), "window_days": self.window_days, **asked}
        asked = {} if path in ("/runs", "/quality", "/parameters") else asked
        response = self.client.get(path, params=asked, headers={"Accept": "text/html"})
        assert response.status_code == 200, response.text
        return response.text


OF_SCORES = {
    "composite_score": "capacity_score", "total_traces": "n_traces", "window_end": "as_of",
    "threshold": "verdict_threshold", "probability": "probability_at_threshold",
}  # fmt: skip
"""Columns of scores by their name in JSON, if the two differ."""
LISTS = {
    "agents": ("scores", "agent_id_hash"),
    "unscored": ("scores", "agent_id_hash"),
    "raised": ("raised", "name"),
    "history": ("fct_capacity_scores", "as_of"),
    "components": ("components", "component"),
    "loss_components": ("attribution", "loss_component"),
    "comparisons": ("fct_score_comparisons", "compared_with"),
    "changes": ("changes", "compared_with", "loss_component"),
    "alerts": ("fct_capacity_alerts", "agent_id_hash", "kind"),
    "red_flags": ("fct_record_signs", "agent_id_hash", "red_flag", "field"),
    "published": ("dim_scoring_parameters", "parameter_name"),
    "parameters": ("dim_scoring_parameters", "parameter_name"),
    "windows": ("dim_scoring_windows", "window_days"),
    "category_bounds": ("dim_capacity_categories", "category"),
    "categories": ("dim_capacity_categories", "category"),
}
"""Mart of the rows in a list, and the columns of its key, by the name of the list in JSON."""
IN_LENS_SPELLING = ("loss_component", "interval_driver", "unmeasured_components")
NOT_OF_MARTS = {
    "verdict_reason", "reason", "agent_note", "cause", "chain_cause", "final_from", "seen", "until", "score_left",
    "permission", "permissions", "events", "traces", "non_exempt_actions", "lowered_by", "failure_mode",
    "missing_traces", "last_traced_at", "words",
}  # fmt: skip
NOT_OF_MART = {
    ("attribution", "n_traces"), ("fct_capacity_alerts", "since"), ("fct_record_signs", "since"),
}  # fmt: skip
LENS_PARAMETERS = {
    "lambda_C": "lambda_c", "mu_C": "mu_c", "decay_rate": "decay_per_day", "signal_weight": "w_corroborated",
    "min_traces": "min_traces",
}  # fmt: skip
WITH_EVIDENCE = ("d_identity", "k_contradiction", "i_chain", "i_coverage", "i_replay", "u_unsafe")


def walked(found: Mapping[str, Any], mart: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the members of a JSON object and of the objects in it. Each must be a column of the mart."""
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
            if name in IN_LENS_SPELLING and value:
                value = value.lower() if isinstance(value, str) else [one.lower() for one in value]
            yield Shown(
                mart,
                key,
                OF_SCORES.get(name, name) if mart in ("scores", "fct_capacity_scores") else name,
                value,
            )


def of_list(name: str, rows: list[Row], key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the members of a list of JSON objects."""
    mart, *columns = LISTS[name]
    if name == "loss_components" and "compared_with" in key:
        mart = "changes"
    for row in rows:
        of = {column: row.get(column, key.get(column)) for column in columns}
        if "loss_component" in of:
            of["loss_component"] = of["loss_component"].lower()
        if "as_of" in of:
            of["as_of"] = datetime.fromisoformat(of["as_of"])
        yield from walked(row, mart, of if mart.startswith("dim_") else {**key, **of})


def of_factors(factors: Row, mart: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the factors of a score, as values or as objects with their components."""
    for name, factor in factors.items():
        if not isinstance(factor, Mapping):
            yield Shown(mart, key, FACTORS[name], factor)
            continue
        for end in ("", "_low", "_high"):
            yield Shown("scores", key, FACTORS[name] + end, factor[f"score{end}"])
        yield Shown("scores", key, "n_traces", factor["trace_count"])
        yield Shown("scores", key, "confidence", factor["confidence"])
        for component, value in factor["components"].items():
            of = {**key, "component": component.lower(), "factor": name}
            yield Shown("components", of, "component_value", value)


def lists(answer: Row, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the values in the lists of an answer."""
    for name in answer.keys() & LISTS.keys():
        if isinstance(answer[name], list):
            yield from of_list(name, answer[name], key)


def limited(mart: str, key: Mapping[str, Any], column: str, text: str) -> Iterator[Shown]:
    """Yield a value and its bounds, as in "0.590 [0.45, 0.68]"."""
    value, *bounds = re.findall(r"[\d,.]*\d|–|-", text)
    yield Shown(mart, key, column, value)
    for end, bound in zip(("low", "high"), bounds or ["", ""], strict=True):
        yield Shown(mart, key, f"{column}_{end}", bound)


def api_fleet(at: At) -> Iterator[Shown]:
    answer = at.get("/capacity/fleet")
    for one in answer["agents"]:
        assert at.get(f"/capacity/{one['agent_id_hash']}") == {**one, "agent_note": None}
    answer["unscored"] = [one for one in answer["unscored"] if one["score_status"] != "no_traces"]
    yield from lists(answer, at.key)
    summary = answer["summary"]
    for verdict, n in summary.pop("verdicts").items():
        if n:
            yield Shown("verdicts", {**at.key, "verdict": verdict}, "n", n)
    for name, value in summary.items():
        yield Shown("fct_fleet_capacity", at.key, name if name.endswith("_score") else f"n_{name}", value)


def api_factors(at: At) -> Iterator[Shown]:
    for agent in at.agents:
        answer = at.get(f"/factors/{agent}")
        assert answer["metadata"]["non_exempt_actions"] == list(NON_EXEMPT)
        yield from walked(answer, "scores", at.of(agent))


def api_history(at: At) -> Iterator[Shown]:
    asked = {"to": at.as_of.isoformat(), "window_days": at.window_days, "days": 400}
    for agent in at.agents:
        path = f"/history/{agent}"
        answer = at.get(path, **{**asked, "as_of": None})
        yield from lists(answer, at.of(agent))
        response = at.client.get(SCORING + path, params=asked, headers={"Accept": "text/csv"})
        for point, line in zip(answer["history"], csv.DictReader(io.StringIO(response.text)), strict=True):
            shown = point | point["factors"] | {"agent_id_hash": agent, "window_days": at.window_days}
            assert line == {name: "" if shown[name] is None else str(shown[name]) for name in line}


def api_alerts(at: At) -> Iterator[Shown]:
    answer = at.get("/alerts", threshold=1)
    assert len(answer["agents"]) == answer["alert_count"] == answer["total_agent_count"]
    assert len(answer["alerts"]) == answer["total_alert_count"]
    yield from lists(answer, at.key)


def api_red_flags(at: At) -> Iterator[Shown]:
    yield from lists(at.get("/red-flags"), at.key)


def api_parameters(at: At) -> Iterator[Shown]:
    answer = at.get("/parameters", as_of=None, window_days=None)
    yield from lists(answer, {})
    for theirs, ours in LENS_PARAMETERS.items():
        value = str(answer["parameters"][theirs])
        yield Shown("dim_scoring_parameters", {"parameter_name": ours}, "parameter_value", value)
    for category, guidance in answer["categories"].items():
        yield Shown("dim_capacity_categories", {"category": category}, "guidance", guidance)


def api_evidence(at: At) -> Iterator[Shown]:
    """The amounts of the traces must sum to the loss of the published component."""
    for agent, component in itertools.product(at.agents, WITH_EVIDENCE):
        traces = at.get(f"/evidence/{agent}", component=component, limit=1000)["traces"]
        amount = round(sum(trace["lowered_by"] for trace in traces), 6)
        yield Shown("lowered", at.of(agent, component=component), "amount", amount)
        for trace in traces:
            key = {"trace_check_id": UUID(trace["key"].partition(".")[2])}
            del trace["key"]
            yield from walked(trace, "fct_trace_checks", key)


def metrics(at: At) -> Iterator[Shown]:
    n_alerts = Counter[tuple[str, str, int]]()
    for family in text_string_to_metric_families(at.client.get("/metrics").text):
        for sample in family.samples:
            name, of = sample.name.removeprefix("ciris_scoring_"), sample.labels
            if name == "agents":
                key = {"as_of": at.as_of, "window_days": int(of["window_days"])}
                column = "insufficient_data" if of["category"] == "none" else of["category"]
                yield Shown("fct_fleet_capacity", key, f"n_{column}", sample.value)
            elif name == "alerts":
                n_alerts[of["kind"], of["severity"], int(of["window_days"])] += int(sample.value)
    for (kind, severity, window_days), n in n_alerts.items():
        key = {"as_of": at.as_of, "window_days": window_days, "kind": kind, "severity": severity}
        yield Shown("alert counts", key, "n", n)


# --- pages -----------------------------------------------------------------------------------------------------------


def label_of(cell: str) -> str:
    """Return the label of an agent whose name and beginning of the hash a page shows."""
    name, beginning = cell.rsplit(" ", 1)
    return f"{name} ({beginning})"


def fleet_rows(at: At, page: str) -> Iterator[Shown]:
    for row in (row for row in cells(page) if len(row) == 16 and row[0] != "Agent"):
        key = {"shown_label": label_of(row[0]), **at.key}
        yield Shown("scores", key, "verdict", row[1].split()[0].lower())
        yield from limited("scores", key, "capacity_score_steady", row[3])
        yield from limited("scores", key, "capacity_score", row[4])
        if row[5] in page_words.NOT_COMPARABLE.values():
            [reason] = [name for name, said in page_words.NOT_COMPARABLE.items() if said == row[5]]
            yield Shown("scores", key, "not_comparable_because", reason)
        else:
            yield Shown("scores", key, "change", row[5])
        yield Shown("scores", key, "steady_label", row[7] if "missing" not in row[7] else None)
        yield Shown("titles", key, "raised", " ".join(row[8].split()))
        yield Shown("scores", key, "n_traces", row[9])
        yield Shown("scores", key, "silent", None if row[10] == "–" else row[10])
        for column, value in zip(FACTORS.values(), row[11:], strict=True):
            yield Shown("scores", key, column, value)
    said = [said for said, _ in page_words.VERDICTS.values()]
    for verdict, n in zip(VERDICTS, re.findall(r"<b class=big>(.*?)</b>", page), strict=True):
        if n != "0":
            yield Shown("verdicts", {**at.key, "verdict": verdict}, "n", n)
    rows = [row for row in cells(page) if len(row) == 16 and row[0] != "Agent"]
    fallen = [row[5].startswith("−") and float(row[5][1:]) >= 0.3 for row in rows]
    order = [(not fell, said.index(row[1].split()[0])) for fell, row in zip(fallen, rows, strict=True)]
    assert order == sorted(order), "the agents that need attention come first"


def fleet_page(at: At) -> Iterator[Shown]:
    return fleet_rows(at, at.page("/"))


def section(page: str, key: Mapping[str, Any], *, whole: bool) -> Iterator[Shown]:
    """Yield the values in a section about an agent: score, loss components, factors and components."""
    for title, value, bounds in re.findall(r"<div><b>(.*?)</b><b>(.*?)</b> <i>(.*?)</i>", page):
        yield from limited("scores", key, FACTORS[text_of(title)], f"{value} {bounds}")
    for row in cells(with_names(page)):
        if row[0] in ("Score (long run)", "This week", "These 30 days"):
            column = "capacity_score_steady" if row[0].startswith("Score") else "capacity_score"
            yield Shown("scores", key, column, row[-2])
        elif row[0].startswith(("This week", "These 30 days")):
            continue  # differences between the two scores
        elif whole and len(row) == 4:
            yield Shown("attribution", {**key, "loss_component": part_of(row[0])}, "points_lost", row[2])
        elif whole and len(row) == 3 and part_of(row[0]):
            change = {**key, "loss_component": part_of(row[0]), "compared_with": "window"}
            yield Shown("changes", change, "points", row[2])
        elif len(row) == 2:
            bounds, value, most = re.fullmatch(r"(?:\[(.*)\] )?(\S+)(?: of (\S+))?", row[1]).groups()  # type: ignore[union-attr]
            component = {**key, "component": part_of(row[0])}
            yield Shown("components", component, "component_value", value)
            for end, bound in zip(("low", "high"), (bounds or ", ").split(", "), strict=True):
                if not bound.startswith("over"):
                    yield Shown("components", component, f"component_{end}", bound)
            if most:
                yield Shown("components", {**key, "component": "sigma_max"}, "component_value", most)


def part_of(words: str) -> str | None:
    """Return the loss component in words such as "slow recovery (mttr_hours)"."""
    found = re.search(r"\((\w+)\)", words)
    return found and found[1]


def agent_pages(at: At) -> Iterator[Shown]:
    for agent in at.agents:
        page = at.page("/agent", agent_id=f"hash:{agent}", days=365)
        key = at.of(agent)
        shown = list(section(page, key, whole=True))
        yield from shown
        parts = [one.key["loss_component"] for one in shown if one.mart == "attribution"]
        if parts:
            yield Shown("lost", key, "loss_components", parts)
        for row in (row for row in cells(page) if len(row) == 12 and row[0] != "As of"):
            of = {**key, "as_of": datetime.fromisoformat(row[0].replace(" UTC", "Z"))}
            yield from limited("fct_capacity_scores", of, "capacity_score_steady", f"{row[1]} {row[2]}")
            yield from limited("fct_capacity_scores", of, "capacity_score", f"{row[3]} {row[4]}")
            for column, value in zip((*FACTORS.values(), "n_traces"), (*row[5:10], row[11]), strict=True):
                yield Shown("fct_capacity_scores", of, column, value)


def alerts_page(at: At) -> Iterator[Shown]:
    kinds = {page_words.raised(kind): kind for kind in ALERTS}
    alert = r"<li class=(\w+)>.*?</b> <b>(.*?)</b> <small>(.*?)</small> (<a.*?</a>) <span>(.*?)</span>"
    for severity, title, since, agent, message in re.findall(alert, at.page("/alerts"), re.DOTALL):
        key = {"shown_label": label_of(text_of(agent).strip()), **at.key}
        kind = kinds[text_of(title)]
        yield Shown("fct_capacity_alerts", {**key, "kind": kind}, "severity", severity)
        yield Shown("fct_capacity_alerts", {**key, "kind": kind}, "message", text_of(message))
        day = f"{since.removeprefix('since ')}T00:00Z"
        moment = {"new": at.as_of.isoformat(), "ongoing": None}.get(since, day)
        yield Shown("raised", {**key, "name": kind}, "since", moment)


def red_flags_page(at: At) -> Iterator[Shown]:
    for agent, title, message, z in (
        row for row in cells(with_names(at.page("/red-flags"))) if row[0] != "Agent"
    ):
        key = {
            "shown_label": label_of(agent),
            **at.key,
            "red_flag": part_of(title),
            "message": message.partition("\n")[0].strip(),
        }
        yield Shown("fct_record_signs", key, "z", z)


def deferrals_page(at: At) -> Iterator[Shown]:
    """The mean of the listed values is the component."""
    for agent in at.agents:
        page = at.page("/evidence", agent_id=f"hash:{agent}", component="q_deferral")
        rows = [row for row in cells(page) if row[0] != "Deferred"]
        key = at.of(agent)
        yield Shown("fct_capacity_scores", key, "n_judged_deferrals", len(rows))
        for row in rows:
            yield Shown("fct_deferral_verdicts", {"deferral_id": row[1]}, "deferral_value", row[4])


def compare_page(at: At) -> Iterator[Shown]:
    columns = {
        "run)": "capacity_score_steady",
        "Traces": "n_traces",
        "week": "capacity_score",
        "days": "capacity_score",
    }
    first, *others = at.agents
    for other in others:
        for row in cells(at.page("/compare", agent_id=f"hash:{first}", other_id=f"hash:{other}")):
            words = row[0].split()
            column = FACTORS.get(words[0] if words else "") or columns.get(words[-1] if words else "")
            for agent, cell in zip((first, other), row[1:3], strict=False):
                key = at.of(agent)
                if column == "n_traces":
                    yield Shown("scores", key, column, cell)
                elif column:
                    yield from limited("scores", key, column, cell)


def runs_page(at: At) -> Iterator[Shown]:
    for row in cells(at.page("/runs"))[1:]:
        moment = datetime.fromisoformat(row[3].replace(" UTC", "Z"))
        key = {"as_of": moment, "n_scores": int(row[5].replace(",", ""))}
        for column, value in (("outcome", row[2]), ("command", row[4]), ("n_late_traces", row[6])):
            yield Shown("runs", key, column, value)
        yield Shown("runs", key, "whole_seconds", row[1])


def quality_page(at: At) -> Iterator[Shown]:
    (_, _, _, _, *days), *rows = cells(at.page("/quality"))
    for row in rows:
        issue = row[0].removesuffix(" no fault").split()[-1]
        yield Shown("issues", {"issue": issue}, "n", row[1])
        yield Shown("issues", {"issue": issue}, "n_agents", row[2].replace("–", "0"))
        for day, n in zip(days, row[4:], strict=True):
            if n:
                yield Shown("issue days", {"issue": issue, "day": day}, "n", n)


def parameters_page(at: At) -> Iterator[Shown]:
    columns = ("parameter_value", "default_value", "allowed_range", "meaning", "specification_section")
    for row in cells(at.page("/parameters")):
        if len(row) == 6 and row[0] != "Parameter":
            for column, value in zip(columns, row[1:], strict=True):
                told = None if value == "not published" else value
                yield Shown("dim_scoring_parameters", {"parameter_name": row[0]}, column, told)
        elif len(row) == 4 and row[0] != "Category":
            for column, value in zip(("lower_bound", "upper_bound", "guidance"), row[1:], strict=True):
                yield Shown("dim_capacity_categories", {"label": row[0]}, column, value)


# --- commands and Grafana --------------------------------------------------------------------------------------------


def report_page(at: At) -> Iterator[Shown]:
    page = read_report(at.connection, MARTS, at.window_days, json=False)
    fleet, *sections = page.split("<details class=panel id=")
    yield from fleet_rows(at, fleet)
    for one in sections:
        label = re.search(r"<h3>(.*?)</h3>", one)
        assert label is not None
        key = {"shown_label": label_of(text_of(label[1])), **at.key}
        yield from section(one.partition("<section class=panel>")[0], key, whole=False)


def report_json(at: At) -> Iterator[Shown]:
    report = json.loads(read_report(at.connection, MARTS, at.window_days, json=True))
    yield from walked(report["fleet"], "fct_fleet_capacity", at.key)
    yield from lists(report, at.key)


def explanations(at: At) -> Iterator[Shown]:
    for agent in at.agents:
        explanation = explain_module.explain(at.project, agent, at.as_of.isoformat(), at.window_days, None)
        found = json.loads(json_text(explanation))
        assert (found.pop("since"), found.pop("n_costly_traces") > 0) == (None, bool(found["traces"]))
        yield from walked(found, "scores", at.of(agent))
        yield from of_text(explain_module.page(explanation), at.of(agent))


def of_text(page: str, key: Mapping[str, Any]) -> Iterator[Shown]:
    """Yield the numbers in the text of an explanation."""
    page = " ".join(page.split())
    number = r"(-?[\d,.]*\d)"
    interval = rf"\.? 95 % interval: {number} to {number}"
    for column, words in (
        ("capacity_score_steady", rf"Steady score[^:]*: {number}[^;]*;"),
        ("capacity_score", rf"alone: {number}\. Status.*?"),
    ):
        if found := re.search(words + interval, page):
            yield from limited("scores", key, column, "{} [{}, {}]".format(*found.groups()))
    factors = page.partition("Factors: ")[2].partition(";")[0]
    for name, value in re.findall(rf"\b({'|'.join(FACTORS)}) {number}", factors):
        yield Shown("scores", key, FACTORS[name], value)
    verdict = re.search(rf"Verdict at {number}: (\w+)", page)
    assert verdict is not None
    yield Shown("scores", key, "verdict_threshold", verdict[1])
    yield Shown("scores", key, "verdict", verdict[2])
    lost = page.partition("Points lost, by loss component")[2].partition("What changed")[0]
    for part, points in re.findall(rf" (\w+) (?:{'|'.join(FACTORS)}) {number} #", lost):
        yield Shown("attribution", {**key, "loss_component": part}, "points_lost", points)


def tables(at: At) -> Iterator[Shown]:
    """The table that `run` prints, wide enough for all columns."""
    with patch.dict("os.environ", {"COLUMNS": "300"}):
        found = fleet_tables(at.connection, MARTS, at.as_of).split("\n\nFleet")
    [table] = [one for one in found if f"window of {at.window_days} days" in one]
    summary, rows, *_ = table.split("\n\n")
    headings, _, *lines = rows.splitlines()
    for verdict, n in re.findall(rf"({'|'.join(VERDICTS)}) (\d+)", summary):
        if n != "0":
            yield Shown("verdicts", {**at.key, "verdict": verdict}, "n", n)
    names = {"category": "category_steady", "status": "score_status", "weakest": "weakest_factor", **FACTORS}
    for line in lines:
        key = {"shown_label": line.partition("  ")[0], **at.key}
        for name in re.split("  +", headings)[1:]:
            start = headings.index(f" {name}") + 1
            is_right_aligned = name in FACTORS
            cell = (
                line[: start + len(name)].split()[-1]
                if is_right_aligned
                else line[start:].partition("  ")[0].strip()
            )
            if name in ("score", "alone"):
                column = "capacity_score_steady" if name == "score" else "capacity_score"
                yield from limited("scores", key, column, cell)
            elif name not in ("alerts", "red_flags"):
                yield Shown("scores", key, names.get(name, name), None if cell == "-" else cell)


def panels(at: At) -> Iterator[Shown]:
    """Panels of the dashboard, for the published thresholds."""
    for row in panel_rows(at, "Agents at the newest as-of"):
        key = at.of(row["hash"])
        yield Shown("titles", key, "names", sorted(filter(None, (row["raised"] or "").split(", "))))
        yield Shown("scores", key, "change", row["change"])
        for name, column in PANEL_COLUMNS.items():
            yield Shown("scores", key, column, row[name])
    for agent in at.agents:
        for row in panel_rows(at, "Points lost by loss component", agent):
            yield Shown(
                "attribution",
                at.of(agent, loss_component=row["loss_component"]),
                "points_lost",
                row["points lost"],
            )
        for row in panel_rows(at, "What changed since one window ago", agent):
            key = at.of(agent, loss_component=row["loss_component"], compared_with="window")
            yield Shown("changes", key, "points", row["points"])
        for row in panel_rows(at, "Components", agent):
            for end in ("value", "low", "high"):
                key = at.of(agent, component=row["component"])
                yield Shown("components", key, f"component_{end}", row[end])
        long_run, week = "Score (long run) and its", "Score of the window alone and its"
        for title in (title for title in PANELS if title.startswith((long_run, week))):
            for row in panel_rows(at, title, agent):
                key = {**at.of(agent), "as_of": row.pop("time")}
                prefix = "capacity_score_steady" if "steady" in row else "capacity_score"
                for value, end in zip(row.values(), ("", "_low", "_high"), strict=True):
                    yield Shown("fct_capacity_scores", key, prefix + end, value)
    for row in panel_rows(at, "Alerts"):
        of = {"agent_label": row["agent"], **at.key, "kind": row["kind"]}
        del row["agent"]
        yield from walked(row, "fct_capacity_alerts", of)


PANEL_COLUMNS = {
    "agent": "agent_label", "capacity": "capacity_score", "low": "capacity_score_low", "high": "capacity_score_high",
    "steady": "capacity_score_steady", "steady low": "capacity_score_steady_low",
    "steady high": "capacity_score_steady_high", "verdict": "verdict", "threshold": "verdict_threshold",
    "category": "category_steady", "certainty": "category_steady_certainty", **FACTORS,
}  # fmt: skip


def panel_rows(at: At, title: str, agent: str = "") -> list[Row]:
    [target] = PANELS[title]["targets"]
    query = expanded(target["rawSql"], agent=agent, window_days=at.window_days)
    with at.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query).fetchall()


# --- the walker ------------------------------------------------------------------------------------------------------

Read = Callable[[At], Iterator[Shown]]
OF_ANY_AS_OF: dict[Read, str] = {
    api_fleet: "scores", api_factors: "components", api_history: "fct_capacity_scores",
    api_alerts: "fct_capacity_alerts", api_red_flags: "fct_record_signs", api_evidence: "lowered",
    fleet_page: "scores", agent_pages: "components", alerts_page: "fct_capacity_alerts",
    red_flags_page: "fct_record_signs", deferrals_page: "fct_capacity_scores", compare_page: "scores",
    explanations: "attribution", tables: "scores",
}  # fmt: skip
OF_NEWEST: dict[Read, str] = {
    report_page: "scores", report_json: "components", panels: "fct_capacity_alerts", metrics: "alert counts",
}  # fmt: skip
WITHOUT_AS_OF: dict[Read, str] = {
    api_parameters: "dim_scoring_parameters", parameters_page: "dim_scoring_parameters", runs_page: "runs",
    quality_page: "issues",
}  # fmt: skip
READERS = {**OF_ANY_AS_OF, **OF_NEWEST, **WITHOUT_AS_OF}
"""The mart of which each reader shows all rows, those of the as-of and window if it has one."""


@pytest.fixture(scope="module")
def world(sample_copy: Database) -> Iterator[tuple[At, Expected]]:
    score(sample_copy.profiles_dir, NEWEST, {"ciris_verdict_threshold": 0.8})
    project = load_project(REPOSITORY, sample_copy.profiles_dir)
    with (
        sample_copy.connect() as connection,
        sample_copy.connect() as marts,
        opened(project) as served,
        asking(served) as client,
        patch.object(explain_module, "read_relations", return_value=MARTS),
    ):
        marts.row_factory = dict_row
        marts.execute(f"set search_path to {SCHEMA}")
        yield At(sample_copy, project, client, connection, NEWEST, 7), Expected(marts)


def wrong(reader: Read, at: At, expected: Expected) -> Iterator[str]:
    """Yield values of a reader that differ from the marts, and rows that it does not show."""
    seen = set()
    for shown in reader(at):
        found = expected.found(shown.mart, shown.key)
        seen |= {id(row) for row in found}
        values = [row.get(shown.column, "no such column") for row in found]
        if len(found) != 1 or not is_shown(values[0], shown.value, shown.column):
            yield f"{shown}: {values} expected"
    for row in expected.rows(READERS[reader]):
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
def test_every_shown_number_is_that_of_the_marts(world, reader, as_of, window_days):
    at, expected = world
    assert list(wrong(reader, replace(at, as_of=as_of, window_days=window_days), expected)) == []
