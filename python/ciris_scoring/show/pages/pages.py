"""The pages themselves: what each reads, and which template shows it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial, wraps
from importlib.metadata import version
from typing import Any

import psycopg

from ciris_scoring.basics.relations import Relations
from ciris_scoring.reading import agents as agents_reading
from ciris_scoring.reading import fleet, history
from ciris_scoring.reading.agents import Agent
from ciris_scoring.reading.alerts import alerts
from ciris_scoring.reading.categories import categories
from ciris_scoring.reading.marts import Marts
from ciris_scoring.reading.parameters import parameters, windows
from ciris_scoring.reading.run_state import Unfinished, unfinished
from ciris_scoring.reading.words import published_words
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.agent_view import read_agents
from ciris_scoring.show.pages.fleet_view import HISTORY_DAYS, read_fleet
from ciris_scoring.show.pages.links import Links, ReportLinks, ServedLinks
from ciris_scoring.show.pages.render import now as current_time
from ciris_scoring.show.pages.render import render
from ciris_scoring.show.pages.words import OUTCOMES

MAX_AGENTS = 500
"""Agents in a report: the lowest."""
MAX_CHOICES = 50

NO_SCORES = "No score is published yet"
NO_SCORE_THEN = "No score was published at this time"
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
    way_back: str | None = None,
) -> Message:
    """Render a page that says something in place of scores; it reads nothing, so the database may be away.

    :param lines: paragraphs.
    :param choices: agents to link to.
    :param status: status of HTTP, for a server.
    :param way_back: where the page of the fleet is; None for no link.
    """
    html = render(
        "message.html",
        heading=heading,
        lines=lines,
        choices=choices,
        categories=[],
        links=links or ServedLinks(),
        window_days=window_days,
        way_back=way_back,
        as_of=None,
        frame=None,
    )
    return Message(html, status)


@dataclass(frozen=True)
class _Page:
    """What every page of scores is told."""

    marts: Marts
    as_of: datetime
    window_days: int
    windows: list[int]
    categories: list[Any]
    unfinished: Unfinished | None
    links: Links
    now: datetime
    asked: datetime | None
    """As-of that was asked for; None for the newest, the fleet's or the agent's."""
    is_newest: bool

    @classmethod
    def read(
        cls,
        marts: Marts,
        window_days: int | None,
        links: Links | None,
        now: datetime | None,
        asked: datetime | None,
    ) -> "_Page | str":
        """Read it; a whole page, a message, where nothing is published."""
        if marts.missing():
            begun = unfinished(marts)
            return message_page(NO_SCORES, _unpublished(begun), links=links)
        newest = fleet.newest(marts, window_days)
        if newest is None and window_days is not None and fleet.newest(marts) is not None:
            published = " or ".join(str(window.window_days) for window in windows(marts))
            return message_page(
                "No such window",
                [f"Scores are published for windows of {published} days."],
                links=links,
                status=404,
                way_back="./",
            )
        if newest is None:
            begun = unfinished(marts)
            lines = ["The last run found nothing to score.", *(_unpublished(begun) if begun else [])]
            return message_page(NO_TRACES, lines, links=links)
        if asked is not None and fleet.capacity(marts, asked, newest.window_days) is None:
            over_time = fleet.capacity_over_time(marts, newest.window_days)
            return message_page(
                NO_SCORE_THEN,
                [published_words([row.as_of for row in over_time], asked)],
                links=links,
                status=404,
                way_back="./",
            )
        return cls(
            marts,
            asked or newest.as_of,
            newest.window_days,
            windows=[window.window_days for window in windows(marts)],
            categories=categories(marts),
            unfinished=unfinished(marts),
            links=links or ServedLinks(),
            now=now or current_time(),
            asked=asked,
            is_newest=asked in (None, newest.as_of),
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
            "is_newest": self.is_newest,
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
            heading,
            lines,
            choices=choices,
            window_days=self.window_days,
            links=self.links,
            status=status,
            way_back=self.links.fleet(self.window_days),
        )


def _of_scores(show: Callable[..., str], own_links: Links | None = None) -> Callable[..., str]:
    """Make a page of published scores of what shows them: where nothing is published, it says so.

    Such a page is called with a connection and the relations, and besides what it shows may be told the window (the
    shortest by default), the as-of (the newest), the links (those of a server) and the time that "ago" counts from (the
    present). It raises psycopg.Error where the database fails.
    """

    @wraps(show)
    def page(
        connection: psycopg.Connection,
        relations: Relations,
        *arguments: Any,
        window_days: int | None = None,
        links: Links | None = None,
        now: datetime | None = None,
        as_of: datetime | None = None,
        **shown: Any,
    ) -> str:
        found = _Page.read(Marts(connection, relations), window_days, links or own_links, now, as_of)
        return found if isinstance(found, str) else show(found, *arguments, **shown)

    return page


@_of_scores
def fleet_page(page: _Page) -> str:
    """Render the fleet."""
    view = read_fleet(page.marts, page.as_of, page.window_days, is_newest=page.is_newest)
    return page.render("fleet.html", view=view, frame=view.frame)


@_of_scores
def agent_page(page: _Page, agent: str) -> str:
    """Render an agent: a message where several are meant, or none.

    :param agent: hash, the beginning of one, a name or a label.
    """
    found = agents_reading.find(page.marts, agent)
    if not found:
        return page.message(
            "There is no such agent", ["No agent has this name, or a hash that begins so."], 404
        )
    if len(found) > 1:
        lines = [f"{len(found)} agents have or had this name, or have a hash that begins so. Which one?"]
        if len(found) > MAX_CHOICES:
            lines.append(f"These are the first {MAX_CHOICES}.")
        return page.message("Several agents are meant", lines, 409, found[:MAX_CHOICES])
    [chosen] = found
    agent_id_hash = chosen.agent_id_hash
    as_of = page.asked or history.newest(page.marts, agent_id_hash, page.window_days)
    if as_of is None:
        last = f"Its last trace is of {chosen.last_traced_at:%Y-%m-%d %H:%M} UTC."
        lines = [f"The agent has none in a window of {page.window_days} days.", last]
        return page.message("No score in this window", lines, 404)
    scores = fleet.scores(page.marts, as_of, page.window_days, agent_id_hash=agent_id_hash)
    if not scores:
        points = history.histories(page.marts, [agent_id_hash], page.window_days).get(agent_id_hash, [])
        return page.message(NO_SCORE_THEN, [published_words([point.as_of for point in points], as_of)], 404)
    histories = history.histories(
        page.marts,
        [agent_id_hash],
        page.window_days,
        first=as_of - timedelta(days=HISTORY_DAYS),
        last=as_of,
        daily_at=as_of,
    )
    as_ofs = [point.as_of for points in histories.values() for point in points]
    raised = alerts(page.marts, page.window_days, agent_id_hash=agent_id_hash) if page.is_newest else []
    [view] = read_agents(page.marts, scores, raised, histories, charts.Frame.of(as_ofs))
    return page.render(
        "agent.html",
        view=view,
        frame=view.frame,
        agent_link=lambda window: page.links.agent(agent_id_hash, window),
    )


@_of_scores
def alerts_page(page: _Page) -> str:
    """Render the alerts."""
    return page.render("alerts.html", alerts=alerts(page.marts, page.window_days))


@_of_scores
def parameters_page(page: _Page) -> str:
    """Render parameters, windows and categories."""
    return page.render(
        "parameters.html", parameters=parameters(page.marts), score_windows=windows(page.marts)
    )


@partial(_of_scores, own_links=ReportLinks())
def report_page(page: _Page) -> str:
    """Render fleet, agents, alerts and parameters as one file that needs nothing else.

    Of more than ``MAX_AGENTS`` agents it shows those with the lowest capacity, and says so.
    """
    view = read_fleet(page.marts, page.as_of, page.window_days, MAX_AGENTS)
    views = read_agents(page.marts, view.scores, view.alerts, view.histories, view.frame)
    links = ReportLinks.to([score.agent_id_hash for score in view.scores])
    values = {**page.values(), "links": links, "windows": [], "now": None, "frame": view.frame}
    return render(
        "report.html",
        **values,
        view=view,
        agents=views,
        parameters=parameters(page.marts),
        score_windows=windows(page.marts),
        version=version("ciris-scoring"),
        written_at=page.now,
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
