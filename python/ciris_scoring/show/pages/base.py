"""Data of the layout that all pages share, and pages that only have a message."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import psycopg

from ciris_scoring.database.relations import Relations
from ciris_scoring.marts import asking, scores
from ciris_scoring.marts.asking import NotThere
from ciris_scoring.marts.marts import SCORE_AGAIN, Marts
from ciris_scoring.marts.reference import categories, windows
from ciris_scoring.marts.runs import RunRecord, unfinished
from ciris_scoring.marts.verdict import Permission, permissions
from ciris_scoring.show import view
from ciris_scoring.show.pages.links import Links, ServedLinks
from ciris_scoring.show.pages.render import render
from ciris_scoring.show.view import Chosen
from ciris_scoring.show.words import OUTCOMES

RANGES = (30, 60, 180, 365)
"""Days of history that the pages of the server offer."""
MAX_CHOICES = 50
"""Maximum number of links to agents that may be meant."""
OLD = timedelta(days=2)
"""Age of the newest as-of beyond which pages say how old the verdicts are."""
OF_PAGE = ("window_days", "as_of", "days", "threshold", "now")
"""Optional arguments of all pages of scores: the window (default: the window of the first permission, or else the
shortest), the as-of (default: the newest), the days of history, the threshold (see `verdict`), and the time from
which the age of the verdicts is computed."""

NO_SCORES = "No score is published yet"
ANOTHER_VERSION = "Another version of the project built the marts"
NO_TRACES = "No agent has sent a trace"


class Instead(Exception):
    """Raised to answer with another HTML page and HTTP status than requested."""

    def __init__(self, html: str, status: int = 200):
        super().__init__(status)
        self.html = html
        self.status = status


def message_page(heading: str, lines: Sequence[str], links: Links | None = None, **more: Any) -> str:
    """Render a page with a message. The database is not read, because it may be away.

    :param lines: paragraphs of the message.
    :param more: optional values: `choices` (agents to link to), `way_back` (link to the fleet), and `window_days` for
    these links.
    """
    values: dict[str, Any] = {"choices": (), "way_back": None, **more}
    return without_scores("message.html", links, heading=heading, lines=lines, **values)


def without_scores(template: str, links: Links | None, **values: Any) -> str:
    """Render a page that has no scores."""
    nothing: dict[str, Any] = {
        **dict.fromkeys(("as_of", "window_days", "unfinished", "frame", "is_old", "is_sample", "age")),
        **{"categories": [], "windows": []},
    }
    return render(template, **{**nothing, "links": links or ServedLinks(), **values})


@dataclass(frozen=True)
class Page:
    """Data that all pages of scores share."""

    marts: Marts
    chosen: Chosen
    as_of: datetime
    window_days: int
    windows: list[int]
    categories: list[Any]
    unfinished: RunRecord | None
    links: Links
    now: datetime
    days: int
    """Number of days of history that the page shows."""
    asked: datetime | None
    """Requested as-of; None for the newest of the fleet or the agent."""
    asked_threshold: float | None
    """Requested threshold, or the threshold of a named permission; None for the published threshold."""
    newest: datetime
    """Newest published as-of."""
    permissions: list[Permission]
    permission: str | None
    """Name of the permission that the verdicts are about; None if the permission has no name."""
    is_sample: bool
    """Whether the scores are those of the sample."""

    @classmethod
    def read(
        cls,
        marts: Marts,
        links: Links | None,
        window_days: int | None = None,
        as_of: datetime | None = None,
        days: int | None = None,
        threshold: float | None = None,
        now: datetime | None = None,
    ) -> "Page":
        """Read the shared data of a page.

        :raises Instead: nothing is published.
        :raises NotThere: the requested window or as-of does not exist.
        """
        missing = marts.missing()
        if missing and marts.is_published():
            said = [f"There is no {', '.join(missing)}.", SCORE_AGAIN]
            raise Instead(message_page(ANOTHER_VERSION, said, links=links))
        if missing:
            raise Instead(message_page(NO_SCORES, _unpublished(unfinished(marts)), links=links))
        chosen = view.choose(marts, window_days, as_of, threshold)
        if chosen.as_of is None:
            begun = unfinished(marts)
            lines = ["The last run found no trace to score.", *(_unpublished(begun) if begun else [])]
            raise Instead(message_page(NO_TRACES, lines, links=links))
        newest = scores.newest(marts, chosen.window_days) or chosen.as_of
        return cls(
            marts,
            chosen,
            chosen.as_of,
            chosen.window_days,
            windows=[window.window_days for window in windows(marts)],
            categories=categories(marts),
            unfinished=unfinished(marts),
            links=links or ServedLinks(),
            now=now or datetime.now(UTC),
            days=days or view.HISTORY_DAYS,
            asked=as_of,
            asked_threshold=chosen.permission.threshold,
            newest=newest,
            permissions=permissions(marts),
            permission=chosen.permission.name,
            is_sample=asking.is_sample(marts, newest),
        )

    @property
    def served(self) -> ServedLinks:
        """The links of a page that only a server has."""
        assert isinstance(self.links, ServedLinks)
        return self.links

    def render(self, template: str, **values: Any) -> str:
        """Render a template with the given values and the values of the layout."""
        age = self.now - self.newest
        of_layout = {**vars(self), "frame": None, "ranges_offered": RANGES, "is_old": age > OLD, "age": age}
        return render(template, **{**of_layout, **values})

    def with_permission(self, permission: Permission) -> ServedLinks:
        """Return the links to pages whose verdicts are about a permission."""
        return replace(self.served, threshold=permission.threshold)


def of_scores(show: Callable[..., str]) -> Callable[..., str]:
    """Decorate a function that renders a page of scores: read the shared data and pass it as a `Page`.

    The decorated function takes a connection, the relations and the page's own arguments. Optional arguments are the
    links (default: those of a server) and `OF_PAGE`. The function raises Instead if the score does not exist or the
    agent is ambiguous.
    """

    @wraps(show)
    def page(
        connection: psycopg.Connection,
        relations: Relations,
        *arguments: Any,
        links: Links | None = None,
        **asked: Any,
    ) -> str:
        of_page = {name: asked.pop(name) for name in OF_PAGE if name in asked}
        links = links or ServedLinks()
        try:
            found = Page.read(Marts(connection, relations), links, **of_page)
            return show(found, *arguments, **asked)
        except NotThere as missing:
            raise _page_instead(missing, links, of_page.get("window_days")) from missing
        except Instead as instead:
            if instead.status != 200:
                raise
            return instead.html

    return page


def _page_instead(missing: NotThere, links: Links, window_days: int | None) -> Instead:
    """Return the page that says what does not exist, with links to what may be meant."""
    lines = [missing.message, missing.hint or ""]
    if len(missing.agents) > MAX_CHOICES:
        lines.append(f"These are the first {MAX_CHOICES}.")
    more = {"choices": missing.agents[:MAX_CHOICES], "window_days": window_days, "way_back": "./"}
    status = 409 if missing.kind == "ambiguous-agent" else 404
    return Instead(message_page(asking.TITLES[missing.kind], lines, links, **more), status)


def _unpublished(begun: RunRecord | None) -> list[str]:
    """Return sentences about the reason why nothing is published, from the newest run."""
    if begun is None:
        return [
            "Score the fleet with: ciris-scoring run (with the same --profiles-dir).",
            "No data yet? ciris-scoring simulate",
        ]
    since = f"{begun.started_at:%Y-%m-%d %H:%M} UTC"
    if begun.is_at_work:
        return [f"A run is in progress since {since}. Its scores appear when it has ended."]
    if begun.outcome in OUTCOMES:
        return [f"The run that began on {since} {OUTCOMES[begun.outcome]}.", *filter(None, [begun.message])]
    return [
        f"The run that began on {since} was refused, failed or was stopped before it published.",
        "The output of that run says why. To see it again, start ciris-scoring run.",
    ]
