"""Pages of the fleet and of its alerts, rendered from the document of the fleet."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

from ciris_scoring.database.terminal import plural
from ciris_scoring.kinds import KINDS
from ciris_scoring.marts.alerts import closed_alerts
from ciris_scoring.marts.history import capacities, factors_over_time
from ciris_scoring.marts.reference import Category
from ciris_scoring.marts.score import title
from ciris_scoring.show import view
from ciris_scoring.show.formats import table_text
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.base import Page, of_scores
from ciris_scoring.show.view import Document
from ciris_scoring.show.words import natural, shown

NEW_SINCE = (("in the last day", 1), ("in the last week", 7))
"""Recent time ranges in which alerts count as new: name and length in days."""
DAYS_OF_CLOSED = 7
"""Days for which the page of alerts lists an alert that is no longer raised."""


class Spread(NamedTuple):
    """Agents that share a name."""

    agent_name: str
    n_agents: int
    scores: list[float]
    """Capacity scores of the agents in ascending order, without agents that have none."""


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
    def spreads(self) -> list[Spread]:
        """The names that several agents share, the most frequent first."""
        names = Counter(score["agent_name"] for score in self.document["agents"] if score["agent_name"] is not None)
        spreads = (
            Spread(name, n, sorted(s["capacity_score"] for s in self._of(name) if s["capacity_score"] is not None))
            for name, n in names.items()
            if n > 1
        )
        return sorted(spreads, key=lambda spread: (-spread.n_agents, spread.agent_name))

    def _of(self, name: str) -> Iterator[Document]:
        return (score for score in self.document["agents"] if score["agent_name"] == name)

    @property
    def n_of_category(self) -> Counter[str | None]:
        """Numbers of agents by category; None for agents without a capacity score."""
        return Counter(score["category"] for score in self.document["agents"])

    @property
    def raised(self) -> Mapping[str, Mapping[str, int]]:
        """Under the keys `alerts` and `red_flags`: numbers of agents by name, the most frequent first."""
        every = [one for score in self.document["agents"] for one in score["raised"]]
        return {
            kind: dict(
                Counter(one["name"] for one in every if (one["severity"] == "red_flag") is is_flag).most_common()
            )
            for kind, is_flag in (("alerts", False), ("red_flags", True))
        }

    @property
    def new(self) -> list[tuple[str, datetime, int]]:
        """Recent time ranges: name, first as-of, and number of agents with an alert or red flag that began after this
        as-of."""
        begun = [self.new_since(score) for score in self.document["agents"]]
        spans = ((said, self.document["as_of"] - timedelta(days=back)) for said, back in NEW_SINCE)
        return [(said, since, sum(one is not None and one > since for one in begun)) for said, since in spans]

    def new_since(self, score: Document) -> datetime | None:
        """Return the as-of of the newest alert or red flag of a score, or None if none began at a known time."""
        return max((one["since"] for one in score["raised"] if one["since"] is not None), default=None)

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
        return charts.line(self.frame, points, charts.FINE)

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
                charts.FINE,
            )
            for i in range(len(self.categories))
        ]

    @property
    def told(self) -> list[charts.Told]:
        """Labels of the chart of scores, one for each as-of."""
        return charts.told(
            self.frame,
            (
                (
                    row["as_of"],
                    row["mean_capacity_score"],
                    f"mean {shown(row['mean_capacity_score'])}, median {shown(row['median_capacity_score'])}; "
                    f"{plural(row['n_agents'], 'agent')}",
                )
                for row in self.document["history"]
            ),
        )

    @property
    def told_of_categories(self) -> list[charts.Told]:
        """Labels of the chart of categories, one for each as-of."""
        return charts.told(
            self.frame,
            (
                (
                    row["as_of"],
                    None,
                    ", ".join(f"{row.get(f'n_{one.category}', 0)} {one.label}" for one in self.categories),
                )
                for row in self.document["history"]
            ),
        )

    def sparkline(self, score: Document) -> str:
        """Return the SVG path of an agent's capacity score over time."""
        return charts.line(self.frame, self.capacities.get(score["agent_id_hash"], []), charts.FINE)


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
        at_link=lambda links: links.fleet(page.window_days),
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
    rows.sort(key=lambda one: natural(one["agent_name"] or ""))
    rows.sort(key=_newest, reverse=True)
    kinds: dict[str, list[Document]] = {}
    for one in rows:
        kinds.setdefault(one["kind"], []).append(one)
    first = page.as_of - timedelta(days=DAYS_OF_CLOSED)
    return page.render(
        "alerts.html",
        doc=document,
        kinds=kinds,
        closed=closed_alerts(page.marts, page.as_of, page.window_days, first),
        at_link=lambda links: links.alerts(page.window_days),
    )


def _newest(one: Document) -> tuple[bool, Any]:
    return one["since"] is not None, one["since"]
