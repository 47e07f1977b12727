"""The findings of a calibration, as tables for people and as JSON."""

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from ciris_scoring.basics import as_of
from ciris_scoring.basics.terminal import aligned, fitted, printable
from ciris_scoring.calibration.discrimination import Estimate
from ciris_scoring.calibration.effects import LEAST_AGENTS, CategoryCounts, Drivers, Judgement, Setting, Told
from ciris_scoring.calibration.parameters import REMEDY, shown_value
from ciris_scoring.reading.words import named

COLUMNS = 110
_COLUMNS_BESIDE_CATEGORIES = 40
_TODAY = "today"


@dataclass(frozen=True)
class Findings:
    """All that a calibration found."""

    moment: datetime
    window_days: int
    n_scored: int
    n_unscored: int
    counts: Sequence[CategoryCounts]
    not_covered: Mapping[str, str]
    drivers: Drivers
    judgement: Judgement | None
    """None without labels."""


def as_text(findings: Findings) -> str:
    """Write the findings as tables, at most ``COLUMNS`` wide."""
    sections = [
        [
            f"Calibration at {as_of.text(findings.moment)}, window of {findings.window_days} days: "
            f"{findings.n_scored} agents with a score, {findings.n_unscored} without",
        ],
        *_category_tables(findings.counts),
        _drivers_table(findings.drivers),
    ]
    if findings.judgement is not None:
        sections += _judgement_tables(findings.judgement)
    sections.append(_not_covered(findings.not_covered))
    return "\n\n".join("\n".join(section) for section in sections)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, break_long_words=True, break_on_hyphens=False)


def _category_tables(counts: Sequence[CategoryCounts]) -> list[list[str]]:
    """One table per composite."""
    titles = {
        "capacity_score": "Agents per category of capacity_score, by value of one parameter, the others as today",
        "capacity_score_geometric": "Agents per category that capacity_score_geometric would fall in, by weight; the "
        "other weights share the rest as today",
    }
    tables = []
    for composite, group in groupby(counts, lambda row: row.setting.composite):
        rows = list(group)
        columns = max(4, (COLUMNS - _COLUMNS_BESIDE_CATEGORIES) // len(rows[0].counts) - 2)
        names = [fitted(printable(name), columns) for name in rows[0].counts]
        headings = ("parameter", "value", "", *names, "change")
        cells = [
            (*_setting_cells(row.setting), *map(str, row.counts.values()), _percent(row.changed))
            for row in rows
        ]
        right = {"value", "change", *names}
        tables.append([*_wrapped(titles[composite]), "", *aligned(headings, cells, right)])
    return tables


def _percent(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # + 0.0: no -0.0


def _setting_cells(setting: Setting) -> tuple[str, str, str]:
    return setting.parameter, shown_value(setting.value), _TODAY if setting.in_force else ""


def _drivers_table(found: Drivers) -> list[str]:
    title = (
        f"What drives the ranking: share of each part's loss in the variance of ln(capacity_score) over "
        f"{found.n_agents} agents; left out with score 0: {found.n_zero}"
    )
    if found.shares is None:
        reason = (
            "at least two agents with a score above 0 are needed"
            if found.n_agents < 2
            else "all scores are the same"
        )
        return [*_wrapped(title), f"No shares: {reason}."]
    rows = [(printable(named(part)), _percent(share)) for part, share in found.shares.items()]
    return [*_wrapped(title), "", *aligned(("part", "share"), rows, {"share"})]


def _judgement_tables(found: Judgement) -> list[list[str]]:
    title = (
        f"Telling good from bad: AUC over {found.spans['good']} good spans of {found.agents['good']} agents and "
        f"{found.spans['bad']} bad of {found.agents['bad']}; spans without a score, left out: {found.n_unscored}. "
        "A span counts with the mean score of its as-ofs (later than from, up to and including to). 95 % intervals by "
        "DeLong's covariance, the spans of one agent kept together; a dash: chance cannot be estimated."
    )
    today = [
        f"{composite} today: {_auc(estimate)} {_interval(estimate)}"
        for composite, estimate in found.today.items()
    ]
    right = {"value", "AUC", "95 % interval", "difference", "its 95 % interval"}
    measured = ("AUC", "95 % interval", "difference", "its 95 % interval")
    by_value = aligned(
        ("parameter", "value", "", *measured),
        [(*_setting_cells(setting), *_told_cells(told)) for setting, told in found.settings],
        right,
    )
    without = aligned(
        ("without", *measured),
        [(printable(named(part)), *_told_cells(told)) for part, told in found.without.items()],
        right,
    )
    return [
        [*_wrapped(title), *today],
        ["By value of one parameter; weights: of capacity_score_geometric", "", *by_value],
        ["capacity_score without one part (its loss set to 0)", "", *without],
        [line for paragraph in verdict(found) for line in _wrapped(paragraph)],
    ]


def _told_cells(told: Told) -> tuple[str, ...]:
    return (
        _auc(told.auc),
        _interval(told.auc),
        _difference(told.difference.value),
        _interval(told.difference, signed=True),
    )


def _auc(estimate: Estimate) -> str:
    return f"{estimate.value:.3f}"


def _difference(value: float) -> str:
    return f"{value:+.3f}" if abs(value) >= 0.0005 else "0.000"


def _interval(estimate: Estimate, *, signed: bool = False) -> str:
    if math.isnan(estimate.low):
        return "-"
    write = _difference if signed else "{:.3f}".format
    return f"[{write(estimate.low)}, {write(estimate.high)}]"


def _differences(found: Judgement) -> list[tuple[str, Told]]:
    by_value = [
        (f"{setting.parameter} {shown_value(setting.value)}", told)
        for setting, told in found.settings
        if not setting.in_force
    ]
    return by_value + [(f"without {printable(named(part))}", told) for part, told in found.without.items()]


def verdict(found: Judgement) -> list[str]:
    """Say which differences exclude 0, and whether anything is better than today's values by more than chance."""
    nothing = "Nothing here is better than today's values by more than chance"
    if not found.is_judged:
        return [
            f"No difference is judged: that needs {LEAST_AGENTS} agents labelled good and {LEAST_AGENTS} labelled bad "
            f"(here {found.agents['good']} and {found.agents['bad']})."
        ]
    differences = _differences(found)
    alone = [
        f"{name} ({_difference(told.difference.value)})"
        for name, told in differences
        if told.difference.excludes_zero
    ]
    if not alone:
        return [f"{nothing}: no difference excludes 0."]
    better = [
        f"{name} ({_difference(told.difference.value)})" for name, told in differences if told.jointly.low > 0
    ]
    lines = [f"Differences whose 95 % interval excludes 0: {', '.join(alone)}."]
    of_chance = (
        f"Of {found.n_differences} such intervals one in twenty may do so by chance; with limits that hold for all of "
        "them together (Bonferroni)"
    )
    if better:
        return [*lines, f"{of_chance}, better than today's values: {', '.join(better)}."]
    return [*lines, f"{of_chance} none is better. {nothing}."]


def _not_covered(reasons: Mapping[str, str]) -> list[str]:
    lines = ["Not covered, since their effect cannot be worked out from published components", ""]
    rows = [(printable(name), reason) for name, reason in reasons.items()]
    return [*lines, *aligned(("parameter", "reason"), rows), *_wrapped(REMEDY)]


def as_json(findings: Findings) -> str:
    """Write the findings as a JSON document; what cannot be estimated is null."""
    found = findings.judgement
    document: dict[str, Any] = {
        "as_of": as_of.text(findings.moment),
        "window_days": findings.window_days,
        "agents": {"scored": findings.n_scored, "without_score": findings.n_unscored},
        "categories": [
            {**_setting_json(row.setting), "agents": dict(row.counts), "share_changed": row.changed}
            for row in findings.counts
        ],
        "drivers": {
            "agents": findings.drivers.n_agents,
            "score_zero": findings.drivers.n_zero,
            "shares": findings.drivers.shares and dict(findings.drivers.shares),
        },
        "not_covered": dict(findings.not_covered),
        "labels": found
        and {
            "spans": {**found.spans, "without_score": found.n_unscored},
            "agents": dict(found.agents),
            "today": {composite: _estimate_json(estimate) for composite, estimate in found.today.items()},
            "parameters": [
                {**_setting_json(setting), **_told_json(told)} for setting, told in found.settings
            ],
            "without": {part: _told_json(told) for part, told in found.without.items()},
            "differences": found.n_differences,
            "is_judged": found.is_judged,
            "verdict": verdict(found),
        },
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _setting_json(setting: Setting) -> dict[str, Any]:
    return {
        "parameter": setting.parameter,
        "value": setting.value,
        "in_force": setting.in_force,
        "composite": setting.composite,
    }


def _told_json(told: Told) -> dict[str, Any]:
    return {
        "auc": _estimate_json(told.auc),
        "difference": _estimate_json(told.difference),
        "difference_jointly": _estimate_json(told.jointly),
    }


def _estimate_json(estimate: Estimate) -> dict[str, float | None]:
    low, high = (None if math.isnan(limit) else limit for limit in (estimate.low, estimate.high))
    return {"value": estimate.value, "low": low, "high": high}
