"""Pages of an agent and of the traces behind a component, rendered from the document of the agent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ciris_scoring.marts.asking import NotThere
from ciris_scoring.marts.evidence import DEFERRALS, RULES, count_evidence, judged_deferrals, read_evidence
from ciris_scoring.names import whole_hash
from ciris_scoring.show import view
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.base import Page, of_scores
from ciris_scoring.show.view import Document

EVIDENCE_ON_A_PAGE = 50


@dataclass(frozen=True)
class AgentCharts:
    """The document of an agent as its page shows it."""

    document: Document
    frame: charts.Frame
    """Time range of the charts."""

    @cached_property
    def explained(self) -> Document:
        """The score whose losses and components the page shows: the newest one of a silent agent."""
        found: Document = self.document["last_score"] or self.document
        return found

    @property
    def spans(self) -> Mapping[str, list[Document]]:
        """Alerts and red flags in the time range of the charts, by name."""
        found: dict[str, list[Document]] = {}
        for one in self.document["raised_before"]:
            found.setdefault(one["name"], []).append(one)
        return found

    def line(self, column: str) -> str:
        """Return the SVG path of a column of fct_capacity_scores over time."""
        return charts.line(self.frame, [(one["as_of"], one[column]) for one in self.document["history"]])

    @property
    def interval(self) -> str:
        """SVG path of the 95 % interval of the capacity score over time."""
        points = [
            (one["as_of"], one["capacity_score_low"], one["capacity_score_high"]) for one in self.document["history"]
        ]
        return charts.area(self.frame, points)

    @property
    def lost(self) -> list[Document]:
        """Loss components of 0.001 points or more, the largest first."""
        return [part for part in self.document["loss_components"] if part["points_lost"] >= 0.001]

    @property
    def moved(self) -> list[Document]:
        """Loss components that changed the score by 0.001 or more in one window, the largest change first."""
        [window] = [one for one in self.document["comparisons"] if one["compared_with"] == "window"] or [
            {"loss_components": []}
        ]
        moved = (part for part in window["loss_components"] if abs(part["points"]) >= 0.001)
        return sorted(moved, key=lambda part: -abs(part["points"]))

    def components_of(self, factor: str) -> list[Document]:
        """Return the components of a factor."""
        return [one for one in self.document["components"] if one["factor"] == factor]


@of_scores
def agent_page(page: Page, agent: str) -> str:
    """Render the page of an agent."""
    chosen, score = view.choose_agent(page.marts, agent, page.window_days, page.asked, page.asked_threshold)
    [document] = view.agent_documents(page.marts, [score], chosen, days=page.days)
    drawn = AgentCharts(document, charts.Frame.of([one["as_of"] for one in document["history"]]))
    hashed = score.agent_id_hash
    return page.render(
        "agent.html",
        drawn=drawn,
        doc=document,
        threshold=document["verdict_threshold"],
        frame=drawn.frame,
        permission_link=lambda one: page.with_permission(one).agent(hashed, one.window_days),
        agent_link=lambda window: page.links.agent(hashed, window),
        range_link=lambda days: replace(page.served, days=days).agent(hashed, page.window_days),
        history_link=page.served.history(hashed, page.window_days, page.days, score.as_of),
    )


@of_scores
def evidence_page(page: Page, agent: str, component: str) -> str:
    """Render the newest traces that lowered a component of an agent's score, or the deferrals."""
    if component not in (*RULES, DEFERRALS):
        hint = f"Single traces lower only {', '.join(RULES)}. Each other component depends on many traces."
        raise NotThere("bad-parameter", "No single trace lowers this component.", hint)
    _, score = view.choose_agent(page.marts, agent, page.window_days, page.asked)
    hashed = score.agent_id_hash
    csv_link = page.served.traces(whole_hash(hashed), component, score.as_of, page.window_days)
    if component == DEFERRALS:
        deferrals = judged_deferrals(page.marts, hashed, score.as_of, score.window_start)
        return page.render("deferrals.html", score=score, deferrals=deferrals, csv_link=csv_link)
    key = (page.marts, component, hashed, score.as_of, score.window_start)
    return page.render(
        "evidence.html",
        component=component,
        score=score,
        traces=read_evidence(*key, limit=EVIDENCE_ON_A_PAGE),
        n_traces=count_evidence(*key),
        csv_link=csv_link,
    )
