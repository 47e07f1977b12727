"""Pages of the fleet and of its alerts, rendered from the document of the fleet."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate

from ciris_scoring.database.terminal import plural
from ciris_scoring.kinds import KINDS
from ciris_scoring.marts.history import capacities, factors_over_time
from ciris_scoring.marts.reference import Category
from ciris_scoring.marts.score import title
from ciris_scoring.show import view
from ciris_scoring.show.formats import table_text
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.base import Page, of_scores
from ciris_scoring.show.view import Document


@dataclass(frozen=True)
class FleetTable:
    """The document of the fleet as its page shows it."""

    document: Document
    categories: Sequence[Category]
    capacities: Mapping[str, list[tuple[datetime, float | None]]]
    """Capacity scores over time by agent hash."""

    @property
    def frame(self) -> charts.Frame:
        """Time range of the charts."""
        return charts.Frame.of([row["as_of"] for row in self.document["history"]])

    @property
    def n_of_category(self) -> Counter[str | None]:
        """Numbers of agents by category; None for agents without a capacity score."""
        return Counter(score["category"] for score in self.document["agents"])

    def to_do(self, score: Document) -> Iterator[str]:
        """Yield sentences on what to do about an agent: the question about its most urgent alert or red flag, and
        alerts of other windows. The alert low_capacity is the least urgent, because other alerts can explain it.
        """
        first = min(score["raised"], key=lambda one: (not one["reviews"], one["name"] == "low_capacity"), default=None)
        if first is not None and first["name"] in KINDS:
            yield KINDS[first["name"]].ask
        for days in sorted({one["window_days"] for one in score["other_windows"]}):
            said = [
                title(one["name"]) + (f" since {one['since']:%Y-%m-%d}" if one["since"] else "")
                for one in score["other_windows"]
                if one["window_days"] == days
            ]
            yield f"In {plural(days, 'day')}: {', '.join(said)}."

    def line(self, column: str) -> str:
        """Return the SVG path of a column of fct_fleet_capacity over time."""
        points = [(row["as_of"], row[column]) for row in self.document["history"]]
        return charts.line(self.frame, points)

    @property
    def areas(self) -> list[str]:
        """SVG paths of the shares of agents per category over time, stacked, the lowest category at the bottom."""
        tops = [
            (row["as_of"], [0, *accumulate(row.get(f"n_{one.category}", 0) for one in self.categories)])
            for row in self.document["history"]
        ]
        return [
            charts.area(
                self.frame,
                ((as_of, of[i] / of[-1], of[i + 1] / of[-1]) if of[-1] else (as_of, None, None) for as_of, of in tops),
            )
            for i in range(len(self.categories))
        ]

    def sparkline(self, score: Document) -> str:
        """Return the SVG path of an agent's capacity score over time."""
        return charts.line(self.frame, self.capacities.get(score["agent_id_hash"], []))


def fleet_table(page: Page, document: Document) -> FleetTable:
    """Return the document of the fleet as its page shows it."""
    hashes = [score["agent_id_hash"] for score in document["agents"]]
    first = page.as_of - timedelta(days=page.days)
    found = capacities(page.marts, hashes, page.window_days, first, page.as_of)
    return FleetTable(document, page.categories, found)


@of_scores
def fleet_page(page: Page) -> str:
    """Render the page of the fleet."""
    document = view.fleet_document(page.marts, page.chosen, view.fleet_scores(page.marts, page.chosen), days=page.days)
    table = fleet_table(page, document)
    return page.render(
        "fleet.html",
        doc=document,
        table=table,
        threshold=document["verdict_threshold"],
        frame=table.frame,
        permission_link=lambda one: page.with_permission(one).fleet(one.window_days),
        range_link=lambda days: replace(page.served, days=days).fleet(page.window_days),
    )


@of_scores
def factors_csv(page: Page) -> str:
    """Return a long CSV of the fleet's history: a row per agent, as-of and factor."""
    return table_text(
        factors_over_time(page.marts, page.window_days, page.as_of - timedelta(days=page.days), page.as_of)
    )


@of_scores
def alerts_page(page: Page) -> str:
    """Render the alerts and red flags, by kind. Kinds and agents whose alerts are the newest come first."""
    document = view.raised_document(page.marts, page.chosen)
    rows: list[Document] = [
        *document["alerts"],
        *(one | {"kind": one["red_flag"], "severity": "red_flag"} for one in document["red_flags"]),
    ]
    rows.sort(key=lambda one: (one["since"] is not None, one["since"]), reverse=True)
    kinds: dict[str, list[Document]] = {}
    for one in rows:
        kinds.setdefault(one["kind"], []).append(one)
    return page.render("alerts.html", doc=document, kinds=kinds)
