"""Pages of runs, parameters, glossary and API, and the report."""

from importlib.metadata import version
from typing import Any

import psycopg

from ciris_scoring.database.relations import Relations
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import parameters, windows
from ciris_scoring.marts.runs import issues, run_records
from ciris_scoring.show import view
from ciris_scoring.show.pages.agent import AgentCharts
from ciris_scoring.show.pages.base import Instead, Page, of_scores, without_scores
from ciris_scoring.show.pages.fleet import fleet_table
from ciris_scoring.show.pages.links import Links, ReportLinks

RUNS_SHOWN = 100
MAX_AGENTS = 500
"""Maximum number of agents in a report. The agents that need attention most are chosen."""


def runs_page(connection: psycopg.Connection, relations: Relations, *, links: Links | None = None) -> str:
    """Render the run log, also before the first publication, and the counts of data that was repaired, set aside or
    refused."""
    marts = Marts(connection, relations)
    runs = run_records(marts, RUNS_SHOWN)
    try:
        page = Page.read(marts, links)
    except Instead as instead:
        return without_scores("runs.html", links, runs=runs, has_scores=False) if runs else instead.html
    return page.render("runs.html", runs=runs, issues=issues(marts), has_scores=True)


@of_scores
def glossary_page(page: Page) -> str:
    """Render the glossary."""
    return page.render("part.html", here="Glossary", part="glossary_part.html")


@of_scores
def parameters_page(page: Page) -> str:
    """Render parameters, windows and categories."""
    of_part = {"parameters": parameters(page.marts), "score_windows": windows(page.marts)}
    return page.render("part.html", here="Parameters", part="parameters_part.html", **of_part)


def api_page(api: dict[str, Any]) -> str:
    """Render the description of the API.

    :param api: the OpenAPI document.
    """
    return without_scores("api.html", None, api=api)


def report_page(connection: psycopg.Connection, relations: Relations, *, window_days: int | None = None) -> str:
    """Render the report as one self-contained HTML file: fleet, agents with alerts and red flags, and parameters.

    If there are more than `MAX_AGENTS` agents, the report shows the agents that need attention most and says so.
    """
    return _report(connection, relations, links=ReportLinks(), window_days=window_days)


@of_scores
def _report(page: Page) -> str:
    document = report_document(page.marts, page.chosen)
    table = fleet_table(page, document)
    return page.render(
        "report.html",
        links=ReportLinks.to([one["agent_id_hash"] for one in document["agents"]]),
        windows=[],
        now=None,
        frame=table.frame,
        days=None,
        doc=document,
        table=table,
        threshold=document["verdict_threshold"],
        drawn_agents=[AgentCharts(one, table.frame) for one in document["agents"]],
        parameters=parameters(page.marts),
        score_windows=windows(page.marts),
        version=version("ciris-scoring"),
        written_at=page.now,
    )


def report_document(marts: Marts, chosen: view.Chosen) -> view.Document:
    """Return the document of the fleet with the documents of the agents that need attention most."""
    scores = view.fleet_scores(marts, chosen)
    return view.fleet_document(marts, chosen, scores, scores[:MAX_AGENTS], in_detail=True) | view.parameters_document(
        marts
    )
