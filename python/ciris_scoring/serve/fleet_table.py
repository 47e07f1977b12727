"""Format the fleet as a text table with verdicts, scores, alerts and red flags. Agents that need attention most come
first."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import psycopg

from ciris_scoring.basics import as_of, decimals
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.terminal import aligned, columns, fitted, painted, printable, width, wrapped
from ciris_scoring.marts import fleet
from ciris_scoring.marts.agents import HASH_SHOWN
from ciris_scoring.marts.alerts import Alert, RedFlag, alerts
from ciris_scoring.marts.causes import NOTHING
from ciris_scoring.marts.factors import FACTORS, Estimate
from ciris_scoring.marts.fleet import Score
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.permissions import Permission, meant, permissions
from ciris_scoring.marts.verdict import VERDICTS, Verdict, percent_sure
from ciris_scoring.serve.pages.words import interval

MAX_ROWS = 40
"""Maximum number of agents in the table that a run prints. The other agents are only counted."""
MAX_CAUSES = 10
"""Number of agents at the top of the table whose cause is printed if their verdict is review or withhold."""
VERDICT_COLOURS = {"review": "yellow", "withhold": "red", "wait": "cyan", "grant": "green"}
"""Colour of each verdict on a terminal. The verdict `keep` has no colour."""

AGENT_WIDTH = 20
RAISED_WIDTH = 24
WIDE = 140
"""Width of the table in columns if the width of the terminal is unknown."""


class Column(NamedTuple):
    """A column of the table."""

    heading: str
    cell: Callable[[Score, Verdict], str]
    goes: int
    """Order in which columns are dropped if the terminal is too narrow, the lowest number first. A column with 0 is
    never dropped."""


def _factor(column: str) -> Callable[[Score, Verdict], str]:
    return lambda score, _: decimals.score(getattr(score, column))


def _raised(is_red_flag: bool) -> Callable[[Score, Verdict], str]:
    """Return a function that lists the alerts or the red flags of a score."""

    def cell(score: Score, _: Verdict) -> str:
        return _listed([one.name for one in score.raised if one.is_red_flag == is_red_flag])

    return cell


def _sure(_: Score, verdict: Verdict) -> str:
    return "-" if verdict.probability is None else f"{percent_sure(verdict.probability)} %"


def painted_verdict(text: str) -> str:
    """Return a verdict in its colour if stdout is a terminal."""
    return painted(text, VERDICT_COLOURS.get(text.strip()))


COLUMNS = (
    Column("verdict", lambda _, verdict: verdict.verdict, 0),
    Column("sure", _sure, 6),
    Column("score", lambda score, _: _limited(score, "capacity_score_steady"), 0),
    Column("alone", lambda score, _: _limited(score, "capacity_score"), 5),
    Column("category", lambda score, _: score.category_steady or "-", 4),
    Column("status", lambda score, _: score.score_status, 3),
    *(Column(name, _factor(column), 1) for name, column in FACTORS.items()),
    Column("weakest", lambda score, _: score.weakest_factor, 2),
    Column("alerts", _raised(False), 0),
    Column("red_flags", _raised(True), 0),
)


def fleet_tables(
    connection: psycopg.Connection,
    relations: Relations,
    moment: datetime,
    window_days: int | None = None,
    threshold: float | None = None,
    most: int | None = MAX_ROWS,
) -> str:
    """Format the fleet at an as-of as one table per window.

    :param window_days: format only this window.
    :param threshold: see `Score.verdict`.
    :param most: maximum number of agents in a table; None for all.
    :returns: the tables in the width of the terminal, or one sentence if no agent has a row.
    """
    marts = Marts(connection, relations)
    tables = []
    named = permissions(marts)
    for window in windows(marts):
        if window_days not in (None, window.window_days):
            continue
        scores = fleet.scores(marts, moment, window.window_days)
        raised = alerts(marts, moment, window.window_days)
        if scores or raised:
            tables.append(_window_table(window.window_days, moment, scores, raised, named, threshold, most))
    if not tables:
        return f"No agent has a trace in a scoring window at {as_of.text(moment)}: the fleet table is empty."
    return "\n\n".join(tables)


def _window_table(
    window: int,
    moment: datetime,
    scores: list[Score],
    raised: list[Alert],
    named: list[Permission],
    threshold: float | None,
    most: int | None,
) -> str:
    of_window = [one for one in named if one.window_days == window]
    chosen = meant(of_window, [window], threshold, window)
    threshold = chosen.threshold
    bearers = Counter(map(_outlined, scores))
    scores = sorted(scores, key=lambda score: fleet.attention(score, threshold))
    summary = f"Fleet at {as_of.text(moment)}, window of {window} days, {len(scores)} agents"
    if scores:  # all scores have the same threshold
        of = f"{chosen.name}, a threshold" if chosen.name else "a threshold"
        summary += f"; for {of} of {scores[0].verdict(threshold).threshold:g}: {_counted(scores, threshold)}"
    lines = [summary]
    for one in of_window:
        if one != chosen:
            lines.append(
                f"For {one.name}, a threshold of {one.threshold:g}: {_counted(scores, one.threshold)}"
            )
    lines.append("")
    shown = [(score, score.verdict(threshold)) for score in scores[:most]]
    labels = [shown_label(score, is_alone=bearers[_outlined(score)] == 1) for score, _ in shown]
    cells: list[tuple[str, list[str], int]] = [
        ("agent", labels, 0),
        *((column.heading, [column.cell(*one) for one in shown], column.goes) for column in COLUMNS),
    ]
    cells = [column for column in cells if column[0] not in ("alerts", "red_flags") or any(column[1])]
    room = columns() or WIDE
    while sum(max(map(width, (name, *texts))) + 2 for name, texts, _ in cells) - 2 > room:
        first = min((goes for *_, goes in cells if goes), default=0)
        if not first:
            break
        cells = [column for column in cells if column[2] != first]
    names = [name for name, *_ in cells]
    rows = list(zip(*(texts for _, texts, _ in cells), strict=True))
    table = aligned(names, rows, {*FACTORS, "sure"}, {"verdict": painted_verdict})
    lines += table if rows else ["No agent has a trace in this window."]
    if len(scores) > len(shown):
        lines.append(f"... and {len(scores) - len(shown)} more agents that need less attention.")
    why = [
        line
        for score, verdict in shown[:MAX_CAUSES]
        if verdict.verdict in ("review", "withhold") and score.cause != NOTHING
        for line in wrapped(printable(f"{shown_label(score)}: {score.cause}"), room)
    ]
    lines += ["", *why] if why else []
    scored = {score.agent_id_hash for score in scores}
    without_row = [alert for alert in raised if alert.agent_id_hash not in scored]
    for alert in without_row[:MAX_ROWS]:
        label = shown_label(alert)
        lines.append(f"{alert.kind}: {label}, without a score in this window. {printable(alert.message)}")
    if len(without_row) > MAX_ROWS:
        lines.append(f"... and {len(without_row) - MAX_ROWS} more alerts for agents without a score.")
    return "\n".join(lines)


def _counted(scores: list[Score], threshold: float | None) -> str:
    counted = Counter(score.verdict(threshold).verdict for score in scores)
    return ", ".join(f"{name} {counted[name]}" for name in VERDICTS)


def _listed(items: list[str]) -> str:
    """Join as many items as fit into the column, and add the number of the other items."""
    for shown in range(len(items), -1, -1):
        not_shown = [f"+{len(items) - shown}"] if shown < len(items) else []
        listed = ", ".join(items[:shown] + not_shown)
        if width(listed) <= RAISED_WIDTH:
            return listed
    return ""


def _limited(score: Score, column: str) -> str:
    """Format a score with its 95 % interval."""
    value, low, high = Estimate.of(score, column)
    return "-" if value is None else f"{decimals.score(value)} {interval(low, high)}".rstrip()


def _outlined(row: Score | Alert | RedFlag) -> tuple[str | None, str]:
    """Return the name and the beginning of the hash of an agent, which form its label."""
    return row.agent_name, row.agent_id_hash[:HASH_SHOWN]


def shown_label(row: Score | Alert | RedFlag, *, is_alone: bool = True) -> str:
    """Return the label of an agent in ``AGENT_WIDTH`` columns. If it is too long, the name is truncated, not the hash.

    :param is_alone: whether no other row has this label. If another row has it, more of the hash is shown.
    """
    name, beginning = _outlined(row)
    rest = fitted(printable(f"({beginning if is_alone else row.agent_id_hash})"), AGENT_WIDTH)
    room = AGENT_WIDTH - width(rest) - 1
    return f"{fitted(printable(name), room)} {rest}" if name and room > 1 else rest
