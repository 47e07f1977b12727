"""Format the fleet as a text table: capacity score, category, cause and verdict. Agents that need attention most come
first."""

from collections import Counter
from datetime import datetime

import psycopg

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database import as_of
from ciris_scoring.database.relations import Relations
from ciris_scoring.database.terminal import aligned, columns, fitted, painted, plural, printable, width, wrapped
from ciris_scoring.marts import fleet
from ciris_scoring.marts.alerts import Alert, RedFlag, alerts
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.news import since_before
from ciris_scoring.marts.parameters import categories, windows
from ciris_scoring.marts.permissions import meant, permissions, words
from ciris_scoring.marts.score import Score
from ciris_scoring.marts.verdict import VERDICTS, verdict
from ciris_scoring.names import HASH_SHOWN, Estimate
from ciris_scoring.show.pages.words import interval

MAX_ROWS = 40
"""Maximum number of agents in the table that a run prints. The other agents are only counted."""
VERDICT_COLOURS = {"suspend": "red", "withhold": "red", "review": "yellow", "wait": "cyan", "grant": "green"}
"""Colour of each verdict on a terminal. The verdict `keep` has no colour."""

AGENT_WIDTH = 24
"""Largest width of the agents' column."""
WHY_WIDTH = 40
"""Smallest width of the last column. In a narrower terminal the cause is printed below the agent."""
WIDE = 120
"""Width of the table in columns if the width of the terminal is unknown."""


def painted_verdict(text: str) -> str:
    """Return a verdict in its colour if stdout is a terminal."""
    return painted(text, VERDICT_COLOURS.get(text.strip().lower()))


def fleet_table(
    connection: psycopg.Connection,
    relations: Relations,
    moment: datetime,
    window_days: int | None = None,
    threshold: float | None = None,
    most: int | None = MAX_ROWS,
) -> str:
    """Format the fleet at an as-of in one window, in the width of the terminal.

    :param window_days: None for the window of the first permission. The last line then names the other windows.
    :param threshold: see `verdict`.
    :param most: maximum number of agents in the table; None for all.
    """
    marts = Marts(connection, relations)
    found, lengths = permissions(marts), [window.window_days for window in windows(marts)]
    chosen = meant(found, lengths, threshold, window_days)
    scores = fleet.scores(marts, moment, chosen.window_days)
    raised = alerts(marts, moment, chosen.window_days)
    if not scores and not raised:
        return f"No agent has a row at {as_of.text(moment)}: the fleet table is empty."
    of_window = f"window of {chosen.window_days} days, {plural(len(scores), 'agent')}, most urgent first"
    room = columns() or WIDE
    lines = []
    if news := since_before(marts, moment, chosen.window_days, scores).lines():
        lines += [
            "Since the as-of before:",
            *(line for one in news for line in wrapped(f"  {printable(one)}", room)),
            "",
        ]
    lines.append(f"Fleet at {as_of.text(moment)}, {of_window}")
    if scores:
        counted = Counter(score.category for score in scores)
        listed = [f"{counted[one.category]} {one.label}" for one in categories(marts)]
        n_silent = sum(score.is_silent for score in scores)
        unscored = ((counted[None] - n_silent, "with too few traces"), (n_silent, "silent"))
        listed += [f"{n} {said}" for n, said in unscored if n]
        lines += wrapped(f"Category: {', '.join(listed)}", room)
        further = [one for one in found if one.window_days == chosen.window_days and one != chosen]
        for number, one in enumerate((chosen, *further)):
            by_agent = [verdict(score, one.threshold) for score in scores]
            said = words(one.name, by_agent[0].threshold, one.window_days)
            n = Counter(on.verdict for on in by_agent)
            counts = ", ".join(f"{n[name]} {name}" for name in VERDICTS)
            lines += wrapped(f"{'Also for' if number else 'Verdict for'} {said}: {counts}", room)
    lines += ["", *_agents(scores, chosen.threshold, most, room)]
    scored = {score.agent_id_hash for score in scores}
    without_row = [alert for alert in raised if alert.agent_id_hash not in scored]
    for alert in without_row[:MAX_ROWS]:
        label = shown_label(alert)
        lines.append(f"{alert.kind}: {label}, without a score in this window. {printable(alert.message)}")
    if len(without_row) > MAX_ROWS:
        lines.append(f"... and {len(without_row) - MAX_ROWS} more alerts for agents without a score.")
    if window_days is None:
        others = [one for one in lengths if one != chosen.window_days]
        lines += [f"The window of {one} days: ciris-scoring fleet --window-days {one}" for one in others]
    return "\n".join(lines)


def _agents(scores: list[Score], threshold: float | None, most: int | None, room: int) -> list[str]:
    """Return the lines of the table: agent, capacity score, category, verdict, and why."""
    bearers = Counter(map(_outlined, scores))
    scores = sorted(scores, key=lambda score: fleet.attention(score, threshold))
    shown = [(score, verdict(score, threshold)) for score in scores[:most]]
    if not shown:
        return ["No agent has a trace in this window."]
    rows = [
        (
            shown_label(score, is_alone=bearers[_outlined(score)] == 1),
            _limited(score, "capacity_score"),
            "silent" if score.is_silent else score.category_label or "-",
            on.verdict,
        )
        for score, on in shown
    ]
    causes = [printable(on.cause(score)) for score, on in shown]
    headings = ("agent", "capacity score", "category", "verdict")
    table = aligned(headings, rows, paint={"verdict": painted_verdict})
    spare = room - width(table[1]) - 2
    if spare < WHY_WIDTH:
        lines = table[:2]
        for line, why in zip(table[2:], causes, strict=True):
            lines += [line, *wrapped(f"    {why}", room)]
    else:
        with_why: list[tuple[str, ...]] = []
        for row, why in zip(rows, causes, strict=True):
            first, *further = wrapped(why, spare)
            with_why.append((*row, first))
            with_why += [("", "", "", "", text.strip()) for text in further]
        lines = aligned((*headings, "why"), with_why, paint={"verdict": painted_verdict})
    if len(scores) > len(shown):
        lines.append(f"... and {len(scores) - len(shown)} more agents that need less attention.")
    return lines


def _limited(score: Score, column: str) -> str:
    """Format a score with its 95 % interval."""
    value, low, high = Estimate.of(score, column)
    return "-" if value is None else f"{decimals.score(value)} {interval(low, high)}".rstrip()


def _outlined(row: Score | Alert | RedFlag) -> tuple[str | None, str]:
    """Return the name and the beginning of the hash of an agent, which form its label."""
    return row.agent_name, row.agent_id_hash[:HASH_SHOWN]


def shown_label(row: Score | Alert | RedFlag, columns: int = AGENT_WIDTH, *, is_alone: bool = True) -> str:
    """Return the label of an agent in a number of columns. If it is too long, the name is truncated, not the hash.

    :param is_alone: whether no other row has this label. If another row has it, more of the hash is shown.
    """
    name, beginning = _outlined(row)
    rest = fitted(printable(f"({beginning if is_alone else row.agent_id_hash})"), columns)
    room = columns - width(rest) - 1
    return f"{fitted(printable(name), room)} {rest}" if name and room > 1 else rest
