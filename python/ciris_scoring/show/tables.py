"""The tables of `ciris-scoring fleet` and `ciris-scoring alerts` as text, JSON and CSV."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import aligned, columns, plural, printable, wrapped
from ciris_scoring.errors import DatabaseError
from ciris_scoring.marts import asking, fleet
from ciris_scoring.marts.alerts import Alert, RedFlag, red_flags
from ciris_scoring.marts.alerts import alerts as read_alerts
from ciris_scoring.marts.marts import Marts, read_only
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.quality import why_unscored
from ciris_scoring.show.fleet_table import WIDE, fleet_table, shown_label
from ciris_scoring.show.pages.words import since
from ciris_scoring.show.spreadsheet import csv_text, fleet_row, json_text

ALERT_COLUMNS = (
    *("severity", "agent_id_hash", "agent_name", "kind", "field", "as_of", "window_days", "since"),
    *("value", "threshold", "z", "message"),
)
"""Columns of alerts and red flags as CSV."""


def show_fleet(
    project: Project,
    as_of: str | None,
    window_days: int | None,
    threshold: float | None,
    permission: str | None,
    form: str | None,
) -> str:
    """Return the scores of all agents; the agents that need attention most come first.

    :param permission: name of a permission, which decides threshold and window.
    :param form: json, csv, or None for a table.
    """
    with connect(project) as connection, read_only(connection):
        marts = Marts(connection, read_relations(project))
        marts.require()
        chosen = asking.permission(marts, permission, threshold, window_days)
        threshold = chosen.threshold
        moment, window = _published(marts, as_of, chosen.window_days)
        if form is None:
            table = fleet_table(connection, marts.relations, moment, window, threshold, most=None)
            return "\n\n".join(filter(None, [table, printable(" ".join(why_unscored(marts)))]))
        scores = fleet.scores(marts, moment, window)
    scores.sort(key=lambda score: fleet.attention(score, threshold))
    rows = [fleet_row(score, threshold) for score in scores]
    if form == "csv":
        return csv_text(list(rows[0]) if rows else [], rows)
    return json_text({"as_of": moment, "window_days": window, "agents": rows})


def show_alerts(project: Project, as_of: str | None, window_days: int | None, form: str | None) -> str:
    """Return the alerts and red flags that are raised, with the as-of since which each is raised.

    :param form: json, csv, or None for a table.
    """
    with connect(project) as connection, read_only(connection):
        marts = Marts(connection, read_relations(project))
        moment, window = _published(marts, as_of, window_days)
        found = read_alerts(marts, moment)
        flags = red_flags(marts, moment, window)
    others = sum(alert.window_days != window for alert in found)
    found = [alert for alert in found if alert.window_days == window]
    if form == "json":
        lists = {"alerts": list(map(asdict, found)), "red_flags": list(map(asdict, flags))}
        return json_text({"as_of": moment, "window_days": window, **lists})
    rows: list[Alert | RedFlag] = [*found, *flags]
    if form == "csv":
        return csv_text(ALERT_COLUMNS, [_row(one, moment, window) for one in rows])
    return _table(rows, moment, window, others)


def _row(one: Alert | RedFlag, moment: datetime, window: int) -> dict[str, Any]:
    row = asdict(one)
    if isinstance(one, RedFlag):
        row |= {"severity": "red_flag", "kind": one.red_flag, "as_of": moment, "window_days": window}
    return row


def _table(rows: Sequence[Alert | RedFlag], moment: datetime, window: int, others: int) -> str:
    counted = plural(len(rows), "alert or red flag", "alerts and red flags")
    room = columns() or WIDE
    cells = []
    for one in rows:
        kind, severity = (one.kind, one.severity) if isinstance(one, Alert) else (one.red_flag, "red flag")
        age = since(one.since, one.as_of if isinstance(one, Alert) else moment)
        cells.append((severity, shown_label(one), kind, age))
    n_new = sum(age == "new" for *_, age in cells)
    lines = [f"{as_of_time.text(moment)}, window of {window} days: {counted}, {n_new} new"]
    table = aligned(("severity", "agent", "kind", "since"), cells) if cells else []
    lines += ["", *table[:2]] if cells else []
    for line, one in zip(table[2:], rows, strict=True):
        lines.append(line)
        lines += wrapped(f"    {printable(one.message)}", room)
    if others:
        lines += ["", f"Other windows: {plural(others, 'alert')}; see --window-days."]
    return "\n".join(lines)


def _published(marts: Marts, as_of: str | None, window_days: int | None) -> tuple[datetime, int]:
    """Return the as-of and the window to show: by default the newest as-of and the shortest window.

    :raises NotThere: there is no score at the as-of, or for the window.
    """
    marts.require()
    window = asking.window([one.window_days for one in windows(marts)], window_days)
    moment = asking.fleet_as_of(marts, window, None if as_of is None else as_of_time.parse_time(as_of, "--as-of"))
    if moment is None:
        why = why_unscored(marts)
        raise DatabaseError(
            " ".join(["No score is published yet.", *why]),
            None if why else "Score the fleet first with ciris-scoring run.",
        )
    return moment, window
