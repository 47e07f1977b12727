"""The tables of `ciris-scoring fleet` and `ciris-scoring alerts`: the document of the fleet as text, JSON and CSV."""

from collections import Counter
from datetime import datetime

import psycopg

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, snapshot
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.database.terminal import aligned, columns, fitted, painted, plural, printable, width, wrapped
from ciris_scoring.errors import DatabaseError
from ciris_scoring.marts import asking
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import categories, windows
from ciris_scoring.marts.runs import why_unscored
from ciris_scoring.marts.verdict import VERDICTS, permission_words
from ciris_scoring.names import HASH_SHOWN
from ciris_scoring.show import view
from ciris_scoring.show.formats import csv_text, json_text, table_text
from ciris_scoring.show.view import Chosen, Document
from ciris_scoring.show.words import interval, shown_cause, since

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
ALERT_COLUMNS = (
    *("severity", "agent_id_hash", "agent_name", "agent_label", "kind", "field", "as_of", "window_days", "since"),
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
    with connect(project) as connection, snapshot(connection):
        marts = Marts(connection, read_relations(project))
        chosen = _published(marts, as_of, window_days, threshold, permission)
        document = view.fleet_document(marts, chosen, view.fleet_scores(marts, chosen))
        if form is None:
            reasons = printable(" ".join(why_unscored(marts)))
            return "\n\n".join(filter(None, [_fleet_text(marts, document, None), reasons]))
    return table_text(document["agents"]) if form == "csv" else json_text(document)


def show_alerts(project: Project, as_of: str | None, window_days: int | None, form: str | None) -> str:
    """Return the alerts and red flags that are raised, with the as-of since which each is raised.

    :param form: json, csv, or None for a table.
    """
    with connect(project) as connection, snapshot(connection):
        marts = Marts(connection, read_relations(project))
        chosen = _published(marts, as_of, window_days)
        document = view.raised_document(marts, chosen)
    if form == "json":
        return json_text(document)
    rows = [
        *document["alerts"],
        *(one | {"severity": "red_flag", "kind": one["red_flag"]} for one in document["red_flags"]),
    ]
    return csv_text(ALERT_COLUMNS, rows) if form == "csv" else _alerts_text(document, rows)


def _published(
    marts: Marts,
    as_of: str | None,
    window_days: int | None,
    threshold: float | None = None,
    permission: str | None = None,
) -> Chosen:
    """Look up what a command asks for.

    :raises DatabaseError: no score is published.
    """
    marts.require()
    moment = None if as_of is None else as_of_time.parse_time(as_of, "--as-of")
    chosen = view.choose(marts, window_days, moment, threshold, permission)
    if chosen.as_of is None:
        why = why_unscored(marts)
        raise DatabaseError(
            " ".join(["No score is published yet.", *why]),
            None if why else "Score the fleet first with ciris-scoring run.",
        )
    return chosen


def _alerts_text(document: Document, rows: list[Document]) -> str:
    cells = [
        (one["severity"].replace("_", " "), shown_label(one), one["kind"], since(one["since"], one["as_of"]))
        for one in rows
    ]
    n_new = sum(age == "new" for *_, age in cells)
    counted = plural(len(rows), "alert or red flag", "alerts and red flags")
    lines = [f"{as_of_time.text(document['as_of'])}, window of {document['window_days']} days: {counted}, {n_new} new"]
    table = aligned(("severity", "agent", "kind", "since"), cells) if cells else []
    lines += ["", *table[:2]] if cells else []
    for line, one in zip(table[2:], rows, strict=True):
        lines.append(line)
        lines += wrapped(f"    {printable(one['message'])}", columns() or WIDE)
    return "\n".join(lines)


# --- the table of the fleet ------------------------------------------------------------------------------------------


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
    chosen = Chosen(asking.permission(marts, None, threshold, window_days), moment)
    text = _fleet_text(marts, view.fleet_document(marts, chosen, view.fleet_scores(marts, chosen)), most)
    others = [] if window_days else [one.window_days for one in windows(marts) if one.window_days != chosen.window_days]
    return "\n".join([text, *(f"The window of {one} days: ciris-scoring fleet --window-days {one}" for one in others)])


def _fleet_text(marts: Marts, document: Document, most: int | None) -> str:
    scores, window_days = document["agents"], document["window_days"]
    moment = as_of_time.text(document["as_of"])
    if not scores:
        return f"No agent has a row at {moment}: the fleet table is empty."
    room = columns() or WIDE
    lines = []
    if document["news"]:
        news = (line for one in document["news"] for line in wrapped(f"  {printable(one)}", room))
        lines += ["Since the as-of before:", *news, ""]
    lines.append(f"Fleet at {moment}, window of {window_days} days, {plural(len(scores), 'agent')}, most urgent first")
    counted = Counter(score["category"] for score in scores)
    listed = [f"{counted[one.category]} {one.label}" for one in categories(marts)]
    n_silent = sum(score["silence"] is not None for score in scores)
    unscored = ((counted[None] - n_silent, "with too few traces"), (n_silent, "silent"))
    listed += [f"{n} {said}" for n, said in unscored if n]
    lines += wrapped(f"Category: {', '.join(listed)}", room)
    for number, one in enumerate((document, *document["permissions"])):
        said = permission_words(one["permission"], one["verdict_threshold"], window_days)
        counts = ", ".join(f"{one['verdicts'][name]} {name}" for name in VERDICTS)
        lines += wrapped(f"{'Also for' if number else 'Verdict for'} {said}: {counts}", room)
    lines += ["", *_agents(scores, most, room)]
    return "\n".join(lines)


def _agents(scores: list[Document], most: int | None, room: int) -> list[str]:
    """Return the lines of the table: agent, capacity score, category, verdict, and why."""
    bearers = Counter(map(_outlined, scores))
    shown = scores[:most]
    rows = [
        (
            shown_label(score, is_alone=bearers[_outlined(score)] == 1),
            _limited(score),
            "silent" if score["silence"] else score["category_label"] or "-",
            score["verdict"],
        )
        for score in shown
    ]
    causes = [printable(shown_cause(score)) for score in shown]
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


def _limited(score: Document) -> str:
    """Format the capacity score with its 95 % interval."""
    value, bounds = score["capacity_score"], interval(score["capacity_score_low"], score["capacity_score_high"])
    return "-" if value is None else f"{decimals.score(value)} {bounds}".rstrip()


def _outlined(row: Document) -> tuple[str | None, str]:
    """Return the name and the beginning of the hash of an agent, which form its label."""
    return row["agent_name"], row["agent_id_hash"][:HASH_SHOWN]


def shown_label(row: Document, columns: int = AGENT_WIDTH, *, is_alone: bool = True) -> str:
    """Return the label of an agent in a number of columns. If it is too long, the name is truncated, not the hash.

    :param is_alone: whether no other row has this label. If another row has it, more of the hash is shown.
    """
    name, beginning = _outlined(row)
    rest = fitted(printable(f"({beginning if is_alone else row['agent_id_hash']})"), columns)
    room = columns - width(rest) - 1
    return f"{fitted(printable(name), room)} {rest}" if name and room > 1 else rest
