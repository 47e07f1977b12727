"""Pages of an agent and of the traces behind a component, rendered from the document of the agent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ciris_scoring.database.terminal import plural
from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.marts.evidence import DEFERRALS, RULES, count_evidence, judged_deferrals, read_evidence
from ciris_scoring.names import whole_hash
from ciris_scoring.show import view
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.base import Page, of_scores
from ciris_scoring.show.view import Document
from ciris_scoring.show.words import interval, shown

HIGHER_IS_BETTER = frozenset(one.component for one in COMPONENT_ROWS if one.better == "higher")
FEW = 5
"""Number of events below which the page shows how many events a loss component depends on."""
EVIDENCE_ON_A_PAGE = 50
OF_PARTS = {"sigma": "s_score"}
"""Components whose page shows the traces of another component."""
SHARES_OF_TRACES = {one.component for one in COMPONENT_ROWS if one.trials == "n_traces" and one.better == "lower"}
"""Components that are the share of traces with an event."""


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

    def line(self, column: str, height: int = charts.FINE) -> str:
        """Return the SVG path of a column of fct_capacity_scores over time."""
        return charts.line(self.frame, [(one["as_of"], one[column]) for one in self.document["history"]], height)

    @property
    def interval(self) -> str:
        """SVG path of the 95 % interval of the capacity score over time."""
        points = [
            (one["as_of"], one["capacity_score_low"], one["capacity_score_high"]) for one in self.document["history"]
        ]
        return charts.area(self.frame, points, charts.MEDIUM)

    @property
    def told(self) -> list[charts.Told]:
        """Labels of the chart, one for each as-of."""

        def of(one: Document, column: str) -> str:
            return f"{shown(one[column])} {interval(one[f'{column}_low'], one[f'{column}_high'])}"

        return charts.told(
            self.frame,
            (
                (
                    one["as_of"],
                    one["capacity_score"],
                    f"capacity score {of(one, 'capacity_score')}, steady score {of(one, 'capacity_score_steady')}, "
                    f"{plural(one['n_traces'], 'trace')}",
                )
                for one in self.document["history"]
            ),
        )

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

    def few(self, loss_component: str) -> str:
        """Return the number of events behind a loss component if it depends on fewer than `FEW`, or an empty text."""
        value, n_traces = self.values.get(loss_component), self.explained["n_traces"]
        if loss_component == "q_deferral":
            n, noun = self.values.get("n_judged_deferrals"), "deferral"
        elif loss_component == "mttr_hours":
            n, noun = self.values.get("n_episodes"), "episode"
        elif loss_component in ("i_chain", "i_replay") and value is not None:
            of = n_traces if loss_component == "i_chain" else self.values.get("n_replayed") or 0
            n, noun = (1 - value) * of, "trace"
        elif loss_component in SHARES_OF_TRACES and value is not None:
            n, noun = value * n_traces, "trace"
        else:
            return ""
        return plural(round(n), noun) if n is not None and round(n) < FEW else ""

    @cached_property
    def values(self) -> Mapping[str, float | None]:
        """Values of the components."""
        return {one["component"]: one["component_value"] for one in self.document["components"]}

    def components_of(self, factor: str) -> list[Document]:
        """Return the components of a factor. Components without a loss, which are 0 and better when lower, are
        omitted, and sigma_max, which the page shows beside sigma."""
        return [
            one
            for one in self.document["components"]
            if one["factor"] == factor
            and one["component"] != "sigma_max"
            and (one["component_value"] != 0 or one["component"] in HIGHER_IS_BETTER)
        ]


@of_scores
def agent_page(page: Page, agent: str) -> str:
    """Render the page of an agent."""
    chosen, score, note = view.choose_agent(page.marts, agent, page.window_days, page.asked, page.asked_threshold)
    [document] = view.agent_documents(page.marts, [score], chosen, days=page.days)
    page.notes.extend([note] if note else [])
    drawn = AgentCharts(document, charts.Frame.of([one["as_of"] for one in document["history"]]))
    hashed = score.agent_id_hash
    return page.render(
        "agent.html",
        drawn=drawn,
        doc=document,
        threshold=document["verdict_threshold"],
        frame=drawn.frame,
        permission_link=lambda one: page.with_permission(one).agent(hashed, one.window_days),
        at_link=lambda links: links.agent(hashed, page.window_days),
        agent_link=lambda window: page.links.agent(hashed, window),
        range_link=lambda days: replace(page.served, days=days).agent(hashed, page.window_days),
        history_link=page.served.history(hashed, page.window_days, page.days, score.as_of),
    )


@of_scores
def evidence_page(page: Page, agent: str, component: str, after: str | None = None) -> str:
    """Render the traces that lowered a component of an agent's score, the newest first, or the deferrals.

    :param after: key of the last trace of the previous page.
    """
    part = OF_PARTS.get(component, component)
    if part not in (*RULES, DEFERRALS):
        lines = [f"Single traces lower only {', '.join(RULES)}. Each other component depends on many traces."]
        raise page.instead("No single trace lowers this component", lines, 404)
    _, score, note = view.choose_agent(page.marts, agent, page.window_days, page.asked)
    page.notes.extend([note] if note else [])
    hashed = score.agent_id_hash
    csv_link = page.served.traces(whole_hash(hashed), part, score.as_of, page.window_days)
    if part == DEFERRALS:
        deferrals = judged_deferrals(page.marts, hashed, score.as_of, score.window_start)
        return page.render("deferrals.html", score=score, deferrals=deferrals, csv_link=csv_link)
    key = (page.marts, part, hashed, score.as_of, score.window_start)
    traces = read_evidence(*key, after=after, limit=EVIDENCE_ON_A_PAGE + 1)
    shown_traces = traces[:EVIDENCE_ON_A_PAGE]
    link = partial(page.served.evidence, hashed, component, score.as_of, page.window_days)
    return page.render(
        "evidence.html",
        component=component,
        score=score,
        traces=shown_traces,
        n_traces=count_evidence(*key),
        after=after,
        first_link=link(),
        next_link=link(after=shown_traces[-1].key) if len(traces) > len(shown_traces) else None,
        csv_link=csv_link,
    )
