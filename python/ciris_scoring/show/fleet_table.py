"""The fleet as a table for people, from the marts."""

from collections import Counter
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ciris_scoring.basics import as_of, decimals
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.terminal import aligned, fitted, printable, width
from ciris_scoring.reading.agents import HASH_SHOWN
from ciris_scoring.reading.factors import FACTORS

MAX_ROWS = 40
"""Agents shown per window; the rest is counted."""

AGENT_WIDTH = 20
ALERTS_WIDTH = 20
SIGNS_WIDTH = 24
HEADINGS = ("agent", *FACTORS, "capacity", "category", "status", "weakest", "alerts", "signs")
NUMERIC = frozenset(FACTORS)


def fleet_tables(connection: psycopg.Connection, relations: Relations, moment: datetime) -> str:
    """Write the fleet at an as-of, one table per window: the lowest capacity first, unscored agents last.

    :param connection: one that may read the marts.
    :param relations: where the marts are.
    :param moment: the as-of of the rows to show.
    :returns: the tables, 120 to 140 columns wide, and 26 more for signs of a polished record where an agent has one; a
        line in their place when no agent has a row.
    :raises psycopg.Error: the marts cannot be read.
    """
    scores = _read(connection, relations, "fct_capacity_scores", moment)
    alerts = _read(connection, relations, "fct_capacity_alerts", moment)
    signs = _read(connection, relations, "fct_record_signs", moment)
    windows = sorted({row["window_days"] for row in (*scores, *alerts)})
    if not windows:
        return f"No agent has a trace in a scoring window at {as_of.text(moment)}: the fleet table is empty."
    return "\n\n".join(
        _window_table(
            window,
            moment,
            [row for row in scores if row["window_days"] == window],
            [row for row in alerts if row["window_days"] == window],
            [row for row in signs if row["window_days"] == window],
        )
        for window in windows
    )


def _read(
    connection: psycopg.Connection, relations: Relations, mart: str, moment: datetime
) -> list[dict[str, Any]]:
    query = sql.SQL("select * from {} where as_of = %s").format(relations[mart])
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, [moment]).fetchall()


def _window_table(
    window: int,
    moment: datetime,
    scores: list[dict[str, Any]],
    alerts: list[dict[str, Any]],
    signs: list[dict[str, Any]],
) -> str:
    kinds: dict[str, list[str]] = {}
    for alert in sorted(alerts, key=lambda row: (row["severity"], row["kind"])):
        kinds.setdefault(alert["agent_id_hash"], []).append(alert["kind"])
    marks: dict[str, set[str]] = {}
    for row in signs:
        marks.setdefault(row["agent_id_hash"], set()).add(row["sign"])
    bearers = Counter(map(_outlined, scores))
    n_columns = len(HEADINGS) - (not marks)

    scores = sorted(scores, key=lambda row: (_sortable(row["capacity_score"]), row["agent_id_hash"]))
    rows = [
        (
            shown_label(row, is_alone=bearers[_outlined(row)] == 1),
            *(_number(row[column]) for column in FACTORS.values()),
            _capacity(row),
            row["category"] or "-",
            row["score_status"],
            row["weakest_factor"],
            _listed(kinds.get(row["agent_id_hash"], []), ALERTS_WIDTH),
            _listed(sorted(marks.get(row["agent_id_hash"], ())), SIGNS_WIDTH),
        )[:n_columns]
        for row in scores[:MAX_ROWS]
    ]
    scored = {row["agent_id_hash"] for row in scores}
    without_row = sorted(
        (row for row in alerts if row["agent_id_hash"] not in scored), key=lambda row: row["agent_id_hash"]
    )
    lines = [f"Fleet at {as_of.text(moment)}, window of {window} days, {len(scores)} agents", ""]
    lines += (
        aligned(HEADINGS[:n_columns], rows, NUMERIC) if rows else ["No agent has a trace in this window."]
    )
    if len(scores) > MAX_ROWS:
        lines.append(f"... and {len(scores) - MAX_ROWS} more agents with a higher capacity or none.")
    for alert in without_row[:MAX_ROWS]:
        label = shown_label(alert)
        lines.append(
            f"{alert['kind']}: {label}, without a score in this window. {printable(alert['message'])}"
        )
    if len(without_row) > MAX_ROWS:
        lines.append(f"... and {len(without_row) - MAX_ROWS} more alerts for agents without a score.")
    return "\n".join(lines)


def _listed(items: list[str], columns: int) -> str:
    """List as many items as fit, and say how many did not."""
    for shown in range(len(items), -1, -1):
        left_out = [f"+{len(items) - shown}"] if shown < len(items) else []
        listed = ", ".join(items[:shown] + left_out)
        if width(listed) <= columns:
            return listed
    return ""


def _number(value: float | None) -> str:
    return "-" if value is None else decimals.score(value)


def _capacity(row: dict[str, Any]) -> str:
    """Score and 95 % interval."""
    score, low, high = (row[f"capacity_score{end}"] for end in ("", "_low", "_high"))
    if score is None or low is None:
        return _number(score)
    return f"{decimals.score(score)} [{decimals.limit(low)}, {decimals.limit(high)}]"


def _sortable(value: float | None) -> float:
    return 2.0 if value is None else value


def _outlined(row: dict[str, Any]) -> tuple[str | None, str]:
    """Name and beginning of the hash, of which a label is made."""
    return row["agent_name"], row["agent_id_hash"][:HASH_SHOWN]


def shown_label(row: dict[str, Any], *, is_alone: bool = True) -> str:
    """Fit an agent's label into ``AGENT_WIDTH`` columns: the name is cut, before what tells the agent from others.

    :param row: of a mart.
    :param is_alone: whether no other row has this name and such a hash; else the hash is shown as far as it fits.
    """
    name, beginning = _outlined(row)
    rest = fitted(printable(f"({beginning if is_alone else row['agent_id_hash']})"), AGENT_WIDTH)
    room = AGENT_WIDTH - width(rest) - 1
    return f"{fitted(printable(name), room)} {rest}" if name and room > 1 else rest
