"""Read the data of each page and render its template, for the server and for the HTML report.

The functions take a connection that may read the marts, and the relations of the marts. If nothing is published, they
render a page with a message. An agent is given by its hash, the beginning of the hash, its name or its label.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial, wraps
from importlib.metadata import version
from typing import Any

import psycopg

from ciris_scoring.database.relations import Relations
from ciris_scoring.database.terminal import plural
from ciris_scoring.marts import agents as agents_reading
from ciris_scoring.marts import asking, fleet
from ciris_scoring.marts import permissions as permissions_reading
from ciris_scoring.marts.alerts import Alert, alerts, closed_alerts, red_flags
from ciris_scoring.marts.asking import NotThere
from ciris_scoring.marts.evidence import RULES, Deferral, count_evidence, judged_deferrals, read_evidence
from ciris_scoring.marts.fleet import Neighbours
from ciris_scoring.marts.marts import SCORE_AGAIN, Marts, grouped
from ciris_scoring.marts.parameters import categories, parameters, windows
from ciris_scoring.marts.permissions import Permission
from ciris_scoring.marts.quality import issues
from ciris_scoring.marts.run_state import RunRecord, run_records, unfinished
from ciris_scoring.marts.score import Score
from ciris_scoring.show.pages.agent_view import read_agents
from ciris_scoring.show.pages.fleet_view import HISTORY_DAYS, NEW_SINCE, RANGES, read_fleet
from ciris_scoring.show.pages.links import Links, ReportLinks, ServedLinks
from ciris_scoring.show.pages.render import render
from ciris_scoring.show.pages.words import OUTCOMES, natural, raised
from ciris_scoring.show.spreadsheet import csv_text

MAX_AGENTS = 500
"""Maximum number of agents in a report. The agents that need attention most are chosen."""
MAX_CHOICES, MAX_WAYS = 50, 2
"""Maximum numbers of links to agents and as-ofs that may be meant."""
EVIDENCE_ON_A_PAGE = 50
EVIDENCE_AT_ONCE = 10_000
"""Number of traces that one query reads for a CSV."""
OF_SCORE = ("agent_id_hash", "agent_name", "as_of", "window_days")
"""Columns of a CSV of traces or deferrals that say whose score they belong to."""
EVIDENCE_COLUMNS = (
    *("traced_at", "trace_id", "selected_action", "audit_sequence_number", "recorded", "counts_because"),
    *("lowered_by", "unit"),
)
ALERTS_OF_A_KIND = 8
ALERTS_ON_A_PAGE = 50
DAYS_OF_CLOSED = 7
"""Days for which the page of alerts lists an alert that is no longer raised."""
RUNS_SHOWN = 100
DAYS_OF_ISSUES = 14
DEFERRALS = "q_deferral"
"""Component that is lowered by deferrals instead of traces."""
OF_PARTS = {"sigma": "s_score"}
"""Components whose page shows the traces of another component."""

OF_PAGE = ("window_days", "as_of", "days", "threshold", "now")
"""Optional arguments of all pages of scores: the window (default: the window of the first permission, or else the
shortest), the as-of (default: the newest), the days of history, the threshold (see `verdict`), and the time from
which texts like "2 hours ago" are computed."""

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
    :param more: optional values: `choices` (agents to link to), `ways` (other links by their text), `way_back` (link
    to the fleet), and `as_of` and `window_days` for the links to other pages.
    """
    values: dict[str, Any] = {"choices": (), "ways": {}, "way_back": None, **more}
    return _without_scores("message.html", links, heading=heading, lines=lines, **values)


def _without_scores(template: str, links: Links | None, **values: Any) -> str:
    """Render a page that has no scores."""
    nothing: dict[str, Any] = {
        **dict.fromkeys(("as_of", "window_days", "unfinished", "frame", "is_old", "is_sample", "age")),
        **{"categories": [], "windows": [], "notes": []},
    }
    return render(template, **{**nothing, "links": links or ServedLinks(), **values})


@dataclass(frozen=True)
class _Page:
    """Data that all pages of scores share."""

    marts: Marts
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
    neighbours: Neighbours
    permissions: list[Permission]
    permission: str | None
    """Name of the permission that the verdicts are about; None if the permission has no name."""
    is_sample: bool
    """Whether the scores are those of the sample."""
    notes: list[str] = field(default_factory=list)
    """Sentences at the top of the page."""

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
    ) -> "_Page":
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
        lengths = [window.window_days for window in windows(marts)]
        asking.window(lengths, window_days)
        chosen = asking.permission(marts, None, threshold, window_days)
        shown = asking.fleet_as_of(marts, chosen.window_days, as_of)
        if shown is None:
            begun = unfinished(marts)
            lines = ["The last run found no trace to score.", *(_unpublished(begun) if begun else [])]
            raise Instead(message_page(NO_TRACES, lines, links=links))
        neighbours = fleet.neighbours(marts, shown, chosen.window_days)
        return cls(
            marts,
            shown,
            chosen.window_days,
            windows=lengths,
            categories=categories(marts),
            unfinished=unfinished(marts),
            links=links or ServedLinks(),
            now=now or datetime.now(UTC),
            days=days or HISTORY_DAYS,
            asked=as_of,
            asked_threshold=chosen.threshold,
            neighbours=neighbours,
            permissions=permissions_reading.permissions(marts),
            permission=chosen.name,
            is_sample=agents_reading.is_sample(marts, neighbours.newest),
        )

    @property
    def served(self) -> ServedLinks:
        """The links of a page that only a server has."""
        assert isinstance(self.links, ServedLinks)
        return self.links

    def render(self, template: str, **values: Any) -> str:
        """Render a template with the given values and the values of the layout."""
        age = self.now - self.neighbours.newest
        is_old = age > 2 * self.neighbours.period(self.as_of)
        of_layout = {**vars(self), "frame": None, "ranges_offered": RANGES, "is_old": is_old, "age": age}
        return render(template, **{**of_layout, **values})

    def instead(self, heading: str, lines: Sequence[str], status: int, **more: Any) -> Instead:
        """Return a page with a message instead of scores, see `message_page`."""
        more |= {"window_days": self.window_days, "as_of": self.as_of}
        way_back = self.links.fleet(self.window_days)
        return Instead(message_page(heading, lines, self.links, way_back=way_back, **more), status)


def _of_scores(show: Callable[..., str], own_links: Links | None = None) -> Callable[..., str]:
    """Decorate a function that renders a page of scores: read the shared data and pass it as a `_Page`.

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
        links = links or own_links or ServedLinks()
        try:
            found = _Page.read(Marts(connection, relations), links, **of_page)
            return show(found, *arguments, **asked)
        except NotThere as missing:
            raise _page_instead(missing, links, of_page.get("window_days")) from missing
        except Instead as instead:
            if instead.status != 200:
                raise
            return instead.html

    return page


@_of_scores
def fleet_page(page: _Page) -> str:
    """Render the page of the fleet."""
    view = read_fleet(page.marts, page.as_of, page.window_days, page.asked_threshold, days=page.days)
    return page.render(
        "fleet.html",
        view=view,
        threshold=view.threshold,
        frame=view.frame,
        at_link=lambda links: links.fleet(page.window_days),
        permission_link=lambda one: replace(page.served, threshold=one.threshold).fleet(one.window_days),
        range_link=lambda days: replace(page.served, days=days).fleet(page.window_days),
    )


def _page_instead(missing: NotThere, links: Links, window_days: int | None) -> Instead:
    """Return the page that says what does not exist, with links to what may be meant."""
    lines = [missing.message, missing.hint or ""]
    if len(missing.agents) > MAX_CHOICES:
        lines.append(f"These are the first {MAX_CHOICES}.")
    to, of = links if isinstance(links, ServedLinks) else ServedLinks(), missing.of
    ways = {}
    for near in sorted(missing.as_ofs[:MAX_WAYS]):
        way = to.at(near).agent(of.agent_id_hash, missing.window_days) if of else to.at(near).fleet(missing.window_days)
        ways[f"As of {near:%Y-%m-%d %H:%M} UTC"] = way
    more = {
        "choices": missing.agents[:MAX_CHOICES],
        "ways": ways,
        "window_days": window_days,
        "way_back": "./",
    }
    status = 409 if missing.kind == "ambiguous-agent" else 404
    return Instead(message_page(asking.TITLES[missing.kind], lines, links, **more), status)


def _score_of(page: _Page, asked: str) -> Score:
    """Return the score of the agent that a text identifies, at the requested as-of or the agent's newest as-of. The
    page gets a note if other agents had the text as their name before.

    :raises NotThere: the agent is ambiguous or does not exist, or it has no score at the as-of.
    """
    agent, note = asking.agent(page.marts, asked)
    *_, as_of = asking.score_as_of(page.marts, agent, page.window_days, page.asked)
    page.notes.extend([note] if note else [])
    return fleet.scores(page.marts, as_of, page.window_days, agent_id_hash=agent.agent_id_hash, raised_at=page.as_of)[0]


@_of_scores
def agent_page(page: _Page, agent: str) -> str:
    """Render the page of an agent."""
    score = _score_of(page, agent)
    [view] = read_agents(page.marts, [score], page.asked_threshold, page.as_of, page.days)
    others = {
        window: fleet.scores(page.marts, score.as_of, window, agent_id_hash=score.agent_id_hash, raised_at=page.as_of)
        for window in {one.window_days for one in page.permissions} - {page.window_days}
    }
    return page.render(
        "agent.html",
        view=view,
        threshold=view.verdict.threshold,
        by_permission=permissions_reading.verdicts(page.permissions, {**others, page.window_days: [score]}),
        permission_link=lambda one: replace(page.served, threshold=one.threshold).agent(
            score.agent_id_hash, one.window_days
        ),
        frame=view.frame,
        at_link=lambda links: links.agent(score.agent_id_hash, page.window_days),
        agent_link=lambda window: page.links.agent(score.agent_id_hash, window),
        range_link=lambda days: replace(page.served, days=days).agent(score.agent_id_hash, page.window_days),
    )


@_of_scores
def evidence_page(page: _Page, agent: str, component: str, after: str | None = None) -> str:
    """Render the traces that lowered a component of an agent's score, the newest first, or the deferrals.

    :param after: key of the last trace of the previous page.
    """
    if component == DEFERRALS:
        score = _score_of(page, agent)
        deferrals = judged_deferrals(page.marts, score.agent_id_hash, score.as_of, score.window_start)
        csv_link = page.served.evidence(
            score.agent_id_hash, component, score.as_of, page.window_days, page="evidence.csv"
        )
        return page.render("deferrals.html", score=score, deferrals=deferrals, csv_link=csv_link)
    score, key = _evidence_of(page, agent, component)
    traces = read_evidence(*key, after=after, limit=EVIDENCE_ON_A_PAGE + 1)
    shown = traces[:EVIDENCE_ON_A_PAGE]
    link = partial(page.served.evidence, score.agent_id_hash, component, score.as_of)
    return page.render(
        "evidence.html",
        component=component,
        score=score,
        traces=shown,
        n_traces=count_evidence(*key),
        after=after,
        first_link=link(page.window_days),
        next_link=link(page.window_days, after=shown[-1].key) if len(traces) > len(shown) else None,
        csv_link=link(page.window_days, page="evidence.csv"),
    )


@_of_scores
def evidence_csv(page: _Page, agent: str, component: str) -> str:
    """Return all traces or deferrals that lowered a component as CSV."""
    if component == DEFERRALS:
        score = _score_of(page, agent)
        of_score = {name: getattr(score, name) for name in OF_SCORE}
        deferrals = judged_deferrals(page.marts, score.agent_id_hash, score.as_of, score.window_start)
        return csv_text((*OF_SCORE, *Deferral.__match_args__), (of_score | asdict(one) for one in deferrals))
    score, key = _evidence_of(page, agent, component)
    of_score = {name: getattr(score, name) for name in OF_SCORE}
    unit = RULES[key[1]].unit

    def rows() -> Iterator[dict[str, Any]]:
        after = None
        while traces := read_evidence(*key, after=after, limit=EVIDENCE_AT_ONCE):
            for one in traces:
                said = {"recorded": one.recorded, "counts_because": one.because, "unit": unit}
                yield asdict(one) | said | of_score
            after = traces[-1].key

    return csv_text((*OF_SCORE, *EVIDENCE_COLUMNS), rows())


def _evidence_of(page: _Page, agent: str, component: str) -> tuple[Score, tuple[Marts, str, str, datetime, datetime]]:
    """Return a score, and the arguments of `read_evidence` for the traces that lowered a component."""
    part = OF_PARTS.get(component, component)
    if part not in RULES:
        lines = [f"Single traces lower only {', '.join(RULES)}. Each other component depends on many traces."]
        raise page.instead("No single trace lowers this component", lines, 404)
    score = _score_of(page, agent)
    return score, (page.marts, part, score.agent_id_hash, score.as_of, score.window_start)


@_of_scores
def red_flags_page(page: _Page, agent: str | None = None) -> str:
    """Render the red flags of selective reporting of one agent or, with None, of all agents."""
    score = None if agent is None else _score_of(page, agent)
    as_of = page.as_of if score is None else score.as_of
    agent_id_hash = None if score is None else score.agent_id_hash
    found = red_flags(page.marts, as_of, page.window_days, agents=None if score is None else [score.agent_id_hash])
    link = partial(page.served.red_flags, agent_id_hash=agent_id_hash)
    return page.render(
        "red_flags.html",
        red_flags=found,
        score=score,
        moment=as_of,
        link=link,
        at_link=lambda links: links.red_flags(page.window_days, agent_id_hash),
    )


def runs_page(connection: psycopg.Connection, relations: Relations, *, links: Links | None = None) -> str:
    """Render the run log, also before the first publication, and the counts of data that was repaired, set aside or
    refused."""
    marts = Marts(connection, relations)
    runs = run_records(marts, RUNS_SHOWN)
    try:
        page = _Page.read(marts, links)
    except Instead as instead:
        return _without_scores("runs.html", links, runs=runs, issue_days=[]) if runs else instead.html
    last_day = (page.neighbours.newest - timedelta(microseconds=1)).date()
    days = [last_day - timedelta(days=back) for back in range(DAYS_OF_ISSUES)]
    found = issues(marts, last_day, DAYS_OF_ISSUES)
    return page.render("runs.html", runs=runs, issues=found, issue_days=days)


@_of_scores
def alerts_page(
    page: _Page,
    kind: str | None = None,
    severity: str | None = None,
    new: date | None = None,
    offset: int = 0,
) -> str:
    """Render the first alerts of each kind, the newest first, or one page of a single kind.

    :param new: render only alerts that began after this day (UTC).
    """
    found = alerts(page.marts, page.as_of, page.window_days)
    found.sort(key=lambda alert: natural(alert.agent_name or ""))
    found.sort(key=lambda alert: (alert.since is not None, alert.since), reverse=True)
    newest = {alert.kind: (alert.since is not None, alert.since) for alert in reversed(found)}
    found.sort(key=lambda alert: (alert.severity, alert.kind))

    def counted(kind: str | None, severity: str | None, new: date | None) -> list[Alert]:
        return [
            one
            for one in found
            if kind in (None, one.kind)
            and severity in (None, one.severity)
            and (new is None or (one.since is not None and one.since.date() > new))
        ]

    chosen = sorted(counted(kind, severity, new), key=lambda alert: newest[alert.kind], reverse=True)
    if offset and (kind is None or offset >= len(chosen)):
        lines = [f"There are {plural(len(chosen), 'alert')} of this kind and severity; offset is {offset}."]
        if kind is None:
            lines = ["Only the alerts of a single kind have several pages. Give kind together with offset."]
        raise page.instead("There is no such page", lines, 404)
    today = page.as_of.date()
    asked = {"kind": kind, "severity": severity, "new": new}
    chips: dict[str, dict[str, Any]] = {"All": dict.fromkeys(asked)}
    chips |= {one: {**asked, "severity": one} for one in ("critical", "warning")}
    chips |= {raised(one): {**asked, "kind": one} for one in sorted({alert.kind for alert in found})}
    chips |= {said: {**asked, "new": today - timedelta(days=days)} for said, days in NEW_SINCE}
    return page.render(
        "alerts.html",
        n_alerts=len(found),
        chips=[(said, of, len(counted(**of)), of == asked) for said, of in chips.items()],
        chosen=grouped(chosen, "kind"),
        closed=closed_alerts(page.marts, page.as_of, page.window_days, page.as_of - timedelta(days=DAYS_OF_CLOSED)),
        asked=asked,
        offset=offset,
        most=ALERTS_OF_A_KIND if kind is None else ALERTS_ON_A_PAGE,
        link=lambda **of: page.served.alerts(
            page.window_days, **{name: value for name, value in of.items() if value is not None}
        ),
        at_link=lambda links: links.alerts(page.window_days),
    )


@_of_scores
def glossary_page(page: _Page) -> str:
    """Render the glossary."""
    return page.render("part.html", here="Glossary", part="glossary_part.html")


def api_page(api: dict[str, Any]) -> str:
    """Render the description of the API.

    :param api: the OpenAPI document.
    """
    return _without_scores("api.html", None, api=api)


@_of_scores
def parameters_page(page: _Page) -> str:
    """Render parameters, windows and categories."""
    of_part = {"parameters": parameters(page.marts), "score_windows": windows(page.marts)}
    return page.render("part.html", here="Parameters", part="parameters_part.html", **of_part)


@partial(_of_scores, own_links=ReportLinks())
def report_page(page: _Page) -> str:
    """Render the report as one self-contained HTML file: fleet, agents with alerts and red flags, and parameters.

    If there are more than ``MAX_AGENTS`` agents, the report shows the agents that need attention most and says so.
    """
    view = read_fleet(page.marts, page.as_of, page.window_days, page.asked_threshold, MAX_AGENTS)
    views = read_agents(page.marts, view.scores, page.asked_threshold, page.as_of, page.days, view.frame)
    scores = {
        window: view.scores if window == page.window_days else fleet.scores(page.marts, page.as_of, window)
        for window in {one.window_days for one in page.permissions}
    }
    links = ReportLinks.to([score.agent_id_hash for score in view.scores])
    return page.render(
        "report.html",
        links=links,
        windows=[],
        now=None,
        frame=view.frame,
        days=None,
        view=view,
        threshold=view.threshold,
        agents=views,
        by_permission=permissions_reading.verdicts(page.permissions, scores),
        parameters=parameters(page.marts),
        score_windows=windows(page.marts),
        version=version("ciris-scoring"),
        written_at=page.now,
    )


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
