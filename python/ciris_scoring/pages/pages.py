"""The pages themselves: what each reads, and which template shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

import psycopg

from ciris_scoring.pages import charts
from ciris_scoring.pages.agent_view import read_agents
from ciris_scoring.pages.fleet_view import HISTORY_DAYS, read_fleet
from ciris_scoring.pages.links import Links, ReportLinks, ServedLinks
from ciris_scoring.pages.render import now as current_time
from ciris_scoring.pages.render import render
from ciris_scoring.pages.words import OUTCOMES
from ciris_scoring.reading import agents as agents_reading
from ciris_scoring.reading import fleet, history
from ciris_scoring.reading.agents import Agent
from ciris_scoring.reading.alerts import alerts
from ciris_scoring.reading.categories import categories
from ciris_scoring.reading.marts import missing_marts
from ciris_scoring.reading.parameters import parameters, windows
from ciris_scoring.reading.run_state import Unfinished, unfinished
from ciris_scoring.relations import Relations

MAX_AGENTS = 500
"""Agents in a report: the lowest."""
MAX_CHOICES = 50

NO_SCORES = "No score is published yet"
NO_TRACES = "No agent has sent a trace"


class Message(str):
    """A page that says something in place of scores, with the status of HTTP that fits it."""

    status: int

    def __new__(cls, html: str, status: int) -> "Message":
        """Make one of its HTML."""
        message = super().__new__(cls, html)
        message.status = status
        return message


def message_page(
    heading: str,
    lines: Sequence[str],
    *,
    choices: Sequence[Agent] = (),
    window_days: int | None = None,
    links: Links | None = None,
    status: int = 200,
) -> Message:
    """Render a page that says something in place of scores; it reads nothing, so the database may be away.

    :param lines: paragraphs.
    :param choices: agents to link to.
    :param status: status of HTTP, for a server.
    """
    html = render(
        "message.html",
        heading=heading,
        lines=lines,
        choices=choices,
        categories=[],
        links=links or ServedLinks(),
        window_days=window_days,
        as_of=None,
        frame=None,
    )
    return Message(html, status)


def fleet_page(
    connection: psycopg.Connection,
    relations: Relations,
    *,
    window_days: int | None = None,
    links: Links | None = None,
    now: datetime | None = None,
) -> str:
    """Render the fleet at its newest as-of.

    :param window_days: window of the scores; default: the shortest.
    :param links: default: those of a server.
    :param now: the time that "ago" counts from; default: the present.
    :raises psycopg.Error: the database fails.
    """
    page = _Page.read(connection, relations, window_days, links, now)
    if isinstance(page, str):
        return page
    view = read_fleet(connection, relations, page.as_of, page.window_days)
    return page.render("fleet.html", view=view, frame=view.frame)


def agent_page(
    connection: psycopg.Connection,
    relations: Relations,
    agent: str,
    *,
    window_days: int | None = None,
    links: Links | None = None,
    now: datetime | None = None,
) -> str:
    """Render an agent at its newest as-of: a message where several are meant, or none.

    :param agent: hash, the beginning of one, or a name.
    :param window_days: window of the scores; default: the shortest.
    :param links: default: those of a server.
    :param now: the time that "ago" counts from; default: the present.
    :raises psycopg.Error: the database fails.
    """
    page = _Page.read(connection, relations, window_days, links, now)
    if isinstance(page, str):
        return page
    found = agents_reading.find(connection, relations, agent)
    if not found:
        return page.message(
            "There is no such agent", ["No agent has this name, or a hash that begins so."], 404
        )
    if len(found) > 1:
        lines = [f"{len(found)} agents have this name, or a hash that begins so. Which one?"]
        if len(found) > MAX_CHOICES:
            lines.append(f"These are the first {MAX_CHOICES}.")
        return page.message("Several agents are meant", lines, 409, found[:MAX_CHOICES])
    [chosen] = found
    newest = history.newest(connection, relations, chosen.agent_id_hash, page.window_days)
    if newest is None:
        last = f"Its last trace is of {chosen.last_traced_at:%Y-%m-%d %H:%M} UTC."
        lines = [f"The agent has none in a window of {page.window_days} days.", last]
        return page.message("No score in this window", lines, 404)
    first = newest - timedelta(days=HISTORY_DAYS)
    histories = history.histories(
        connection,
        relations,
        [chosen.agent_id_hash],
        page.window_days,
        first=first,
        last=newest,
        daily_at=newest,
    )
    as_ofs = [point.as_of for points in histories.values() for point in points]
    [score] = fleet.scores(
        connection, relations, newest, page.window_days, agent_id_hash=chosen.agent_id_hash
    )
    found_alerts = alerts(connection, relations, page.window_days, agent_id_hash=chosen.agent_id_hash)
    [view] = read_agents(connection, relations, [score], found_alerts, histories, charts.Frame.of(as_ofs))
    return page.render(
        "agent.html",
        view=view,
        frame=view.frame,
        agent_link=lambda window: page.links.agent(chosen.agent_id_hash, window),
    )


def alerts_page(
    connection: psycopg.Connection,
    relations: Relations,
    *,
    window_days: int | None = None,
    links: Links | None = None,
    now: datetime | None = None,
) -> str:
    """Render the alerts; parameters and errors as in :func:`fleet_page`."""
    page = _Page.read(connection, relations, window_days, links, now)
    if isinstance(page, str):
        return page
    return page.render("alerts.html", alerts=alerts(connection, relations, page.window_days))


def parameters_page(
    connection: psycopg.Connection,
    relations: Relations,
    *,
    window_days: int | None = None,
    links: Links | None = None,
    now: datetime | None = None,
) -> str:
    """Render parameters, windows and categories; parameters and errors as in :func:`fleet_page`."""
    page = _Page.read(connection, relations, window_days, links, now)
    if isinstance(page, str):
        return page
    return page.render(
        "parameters.html",
        parameters=parameters(connection, relations),
        score_windows=windows(connection, relations),
    )


def report_page(
    connection: psycopg.Connection,
    relations: Relations,
    *,
    window_days: int | None = None,
    now: datetime | None = None,
) -> str:
    """Render fleet, agents, alerts and parameters as one file that needs nothing else.

    Of more than ``MAX_AGENTS`` agents it shows those with the lowest capacity, and says so.

    :param window_days: window of the scores; default: the shortest.
    :param now: when the report is written; default: the present.
    :raises psycopg.Error: the database fails.
    """
    page = _Page.read(connection, relations, window_days, ReportLinks(), now)
    if isinstance(page, str):
        return page
    view = read_fleet(connection, relations, page.as_of, page.window_days, MAX_AGENTS)
    views = read_agents(connection, relations, view.scores, view.alerts, view.histories, view.frame)
    links = ReportLinks.to([score.agent_id_hash for score in view.scores])
    values = {**page.values(), "links": links, "windows": [], "now": None, "frame": view.frame}
    return render(
        "report.html",
        **values,
        view=view,
        agents=views,
        parameters=parameters(connection, relations),
        score_windows=windows(connection, relations),
        version=version("ciris-scoring"),
        written_at=page.now,
    )


@dataclass(frozen=True)
class _Page:
    """What every page of scores is told."""

    as_of: datetime
    window_days: int
    windows: list[int]
    categories: list[Any]
    unfinished: Unfinished | None
    links: Links
    now: datetime

    @classmethod
    def read(
        cls,
        connection: psycopg.Connection,
        relations: Relations,
        window_days: int | None,
        links: Links | None,
        now: datetime | None,
    ) -> "_Page | str":
        """Read it; a whole page, a message, where nothing is published."""
        if missing_marts(connection, relations):
            begun = unfinished(connection, relations)
            return message_page(NO_SCORES, _unpublished(begun), links=links)
        newest = fleet.newest(connection, relations, window_days)
        if newest is None and window_days is not None and fleet.newest(connection, relations) is not None:
            published = " or ".join(str(window.window_days) for window in windows(connection, relations))
            return message_page(
                "No such window",
                [f"Scores are published for windows of {published} days."],
                links=links,
                status=404,
            )
        if newest is None:
            begun = unfinished(connection, relations)
            lines = ["The last run found nothing to score.", *(_unpublished(begun) if begun else [])]
            return message_page(NO_TRACES, lines, links=links)
        return cls(
            *newest,
            windows=[window.window_days for window in windows(connection, relations)],
            categories=categories(connection, relations),
            unfinished=unfinished(connection, relations),
            links=links or ServedLinks(),
            now=now or current_time(),
        )

    def values(self) -> dict[str, Any]:
        """Values of the layout."""
        return {
            "as_of": self.as_of,
            "window_days": self.window_days,
            "windows": self.windows,
            "categories": self.categories,
            "unfinished": self.unfinished,
            "links": self.links,
            "now": self.now,
            "frame": None,
        }

    def render(self, template: str, **values: Any) -> str:
        """Render a page of scores."""
        return render(template, **{**self.values(), **values})

    def message(
        self, heading: str, lines: Sequence[str], status: int, choices: Sequence[Agent] = ()
    ) -> Message:
        """Render a message in place of scores."""
        return message_page(
            heading, lines, choices=choices, window_days=self.window_days, links=self.links, status=status
        )


def _unpublished(begun: Unfinished | None) -> list[str]:
    """Why nothing is published, as far as the database tells."""
    if begun is None:
        return ["Score the fleet with: ciris-scoring run"]
    since = f"{begun.started_at:%Y-%m-%d %H:%M} UTC"
    if begun.is_at_work:
        return [f"A run is at work since {since}. Its scores appear when it has ended."]
    if begun.waiting_scores:
        return [
            f"{begun.waiting_scores:,} scores wait for the Python step: the first half of a run was built on {since}.",
            "ciris-scoring run does the rest.",
        ]
    if begun.outcome:
        said = [line for line in (begun.message, begun.remedy) if line]
        return [f"The run that began on {since} {OUTCOMES[begun.outcome]}.", *said]
    return [
        f"The run that began on {since} was refused, failed or was stopped before it published.",
        "Its output says why; ciris-scoring run says it again.",
    ]
