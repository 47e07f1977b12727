"""Data of an agent's page, read for one agent or for many at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ciris_scoring.database.terminal import plural
from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.marts import agent as reading
from ciris_scoring.marts.agent import Component, ComponentChange, ComponentLoss
from ciris_scoring.marts.alerts import Alert, RedFlag, alerts, red_flags
from ciris_scoring.marts.history import Event, Point, events, histories
from ciris_scoring.marts.marts import Marts, grouped
from ciris_scoring.marts.score import Raised, Score, bridge
from ciris_scoring.marts.verdict import Verdict, raised, verdict
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.words import interval, shown

HIGHER_IS_BETTER = frozenset(one.component for one in COMPONENT_ROWS if one.better == "higher")
FEW = 5
"""Number of events below which the page shows how many events a loss component depends on."""


@dataclass(frozen=True)
class AgentView:
    """Data of an agent at an as-of in a window."""

    score: Score
    points: list[Point]
    events: list[Event]
    loss_components: list[ComponentLoss]
    changes: list[ComponentChange]
    components: list[Component]
    alerts: list[Alert]
    red_flags: list[RedFlag]
    raised: list[Raised]
    """Alerts and red flags that were raised at an as-of that the charts show."""
    verdict: Verdict
    frame: charts.Frame

    @property
    def spans(self) -> Mapping[str, list[Raised]]:
        """Alerts and red flags in the time range of the charts, by name."""
        return grouped(self.raised, "name")

    def line(self, column: str, height: int = charts.FINE) -> str:
        """Return the SVG path of a column of fct_capacity_scores over time."""
        points = [(point.as_of, getattr(point, column)) for point in self.points]
        return charts.line(self.frame, points, height)

    @property
    def told(self) -> list[charts.Told]:
        """Labels of the chart, one for each as-of."""
        return charts.told(
            self.frame,
            (
                (
                    p.as_of,
                    p.capacity_score,
                    f"capacity score {shown(p.capacity_score)} "
                    f"{interval(p.capacity_score_low, p.capacity_score_high)}, "
                    f"steady score {shown(p.capacity_score_steady)} "
                    f"{interval(p.capacity_score_steady_low, p.capacity_score_steady_high)}, "
                    f"{plural(p.n_traces, 'trace')}",
                )
                for p in self.points
            ),
        )

    @property
    def interval(self) -> str:
        """SVG path of the 95 % interval of the capacity score over time."""
        points = [(p.as_of, p.capacity_score_low, p.capacity_score_high) for p in self.points]
        return charts.area(self.frame, points, charts.MEDIUM)

    @property
    def lost(self) -> list[ComponentLoss]:
        """Loss components of 0.001 points or more, the largest first."""
        return [part for part in self.loss_components if part.points_lost >= 0.001]

    @property
    def bridge(self) -> list[tuple[str, float]]:
        """Points from the capacity score to the steady score by factor, the largest first."""
        return bridge(self.score.steady_difference)

    def few(self, loss_component: str) -> str:
        """Return the number of events behind a loss component if it depends on fewer than `FEW`, or an empty text."""
        of_name = self._values
        value = of_name.get(loss_component)
        if loss_component == "q_deferral":
            n, noun = of_name.get("n_judged_deferrals"), "deferral"
        elif loss_component in ("d_identity", "k_contradiction", "u_unsafe") and value is not None:
            n, noun = value * self.score.n_traces, "trace"
        elif loss_component in ("i_chain", "i_replay") and value is not None:
            of = self.score.n_traces if loss_component == "i_chain" else of_name.get("n_replayed") or 0
            n, noun = (1 - value) * of, "trace"
        else:
            return ""
        return plural(round(n), noun) if n is not None and round(n) < FEW else ""

    @property
    def moved(self) -> list[ComponentChange]:
        """Loss components that changed the score by 0.001 or more in one window, the largest change first."""
        return sorted((part for part in self.changes if abs(part.points) >= 0.001), key=lambda part: -abs(part.points))

    @property
    def sigma_max(self) -> float | None:
        """Maximum that sigma can reach."""
        return self._values.get("sigma_max")

    @property
    def _values(self) -> dict[str, float | None]:
        return {component.component: component.component_value for component in self.components}

    def components_of(self, factor: str) -> list[Component]:
        """Return the components of a factor. Components without a loss, which are 0
        and better when lower, are omitted, and sigma_max, which the page shows beside sigma."""
        return [
            one
            for one in self.components
            if one.factor == factor
            and one.component != "sigma_max"
            and (one.component_value != 0 or one.component in HIGHER_IS_BETTER)
        ]


def read_agents(
    marts: Marts,
    scores: Sequence[Score],
    threshold: float | None,
    raised_at: datetime,
    days: int,
    frame: charts.Frame | None = None,
) -> list[AgentView]:
    """Read the data of agents' pages. The result has the order of the scores.

    :param scores: scores of one as-of and window, at least one.
    :param threshold: see `verdict`.
    :param raised_at: as-of of the alerts.
    :param frame: time range of the charts, or None for the time range of the agents' histories.
    """
    hashes = [score.agent_id_hash for score in scores]
    as_of, window_days = scores[0].as_of, scores[0].window_days
    first = as_of - timedelta(days=days)
    points = histories(marts, hashes, window_days, first=first, last=as_of, daily_at=as_of)
    frame = frame or charts.Frame.of(sorted({one.as_of for of_agent in points.values() for one in of_agent}))
    key = (marts, hashes, as_of, window_days)
    lists: dict[str, Mapping[str, list[Any]]] = {
        "points": points,
        "events": events(marts, hashes, window_days, frame.first, frame.last),
        "loss_components": grouped(reading.attribution(*key)),
        "changes": grouped(reading.changes(*key)),
        "components": grouped(reading.components(*key)),
        "alerts": grouped(alerts(marts, raised_at, window_days, agents=hashes)),
        "red_flags": grouped(red_flags(marts, as_of, window_days, agents=hashes)),
        "raised": raised(marts, window_days, raised_at, first=frame.first, agents=hashes),
    }
    return [
        AgentView(
            score=score,
            verdict=verdict(score, threshold),
            frame=frame,
            **{name: of_agent[score.agent_id_hash] for name, of_agent in lists.items()},
        )
        for score in scores
    ]
