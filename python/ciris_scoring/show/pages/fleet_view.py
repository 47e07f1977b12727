"""What the page of the fleet shows, read from the marts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ciris_scoring.basics.terminal import plural
from ciris_scoring.reading import agents as agents_reading
from ciris_scoring.reading import fleet as fleet_reading
from ciris_scoring.reading import history as history_reading
from ciris_scoring.reading.agents import Agent
from ciris_scoring.reading.alerts import Alert, alerts
from ciris_scoring.reading.fleet import FleetCapacity, Score, Spread
from ciris_scoring.reading.history import Capacities, Point
from ciris_scoring.reading.marts import Marts
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.words import interval, shown

HISTORY_DAYS = 60
"""Of the charts, where nothing else is asked for."""
RANGES = (30, 60, 180, 365)
"""Days of history that the pages of a server offer."""


@dataclass(frozen=True)
class FleetView:
    """The fleet at an as-of in a window."""

    as_of: datetime
    window_days: int
    capacity: FleetCapacity
    scores: list[Score]
    """The lowest first; all of them, or as many as were asked for."""
    spreads: list[Spread]
    alerts: list[Alert]
    """The critical ones first; of a limited view no more than of its agents."""
    alerts_left_out: int
    without_score: list[Agent]
    over_time: list[FleetCapacity]
    capacities: dict[str, Capacities]
    frame: charts.Frame

    @property
    def left_out(self) -> int:
        """Agents that are not among the scores."""
        return self.capacity.n_agents - len(self.scores)

    @property
    def folded(self) -> dict[str, int]:
        """Number of each name that several agents bear."""
        return {spread.agent_name: i for i, spread in enumerate(self.spreads)}

    def line(self, column: str) -> str:
        """Path of a number of the fleet over time."""
        points = [(row.as_of, getattr(row, column)) for row in self.over_time]
        return charts.line(self.frame, points, charts.FINE)

    @property
    def told(self) -> list[charts.Told]:
        """What the chart says of each as-of."""
        return charts.told(
            self.frame,
            (
                (
                    row.as_of,
                    row.mean_capacity_score,
                    f"mean {shown(row.mean_capacity_score)}, median {shown(row.median_capacity_score)}, "
                    f"lowest {shown(row.min_capacity_score)}; {plural(row.n_agents, 'agent')}",
                )
                for row in self.over_time
            ),
        )

    def sparkline(self, agent_id_hash: str) -> str:
        """Path of an agent's capacity over time."""
        found = self.capacities.get(agent_id_hash)
        points = [] if found is None else list(zip(found.as_ofs, found.capacities, strict=True))
        return charts.line(self.frame, points, charts.FINE)


def capacities_told(frame: charts.Frame, points: list[Point]) -> list[charts.Told]:
    """What a chart of an agent's capacity says of each as-of."""
    return charts.told(
        frame,
        (
            (
                point.as_of,
                point.capacity_score,
                f"{shown(point.capacity_score)} "
                f"{interval(point.capacity_score_low, point.capacity_score_high)}, {plural(point.n_traces, 'trace')}",
            )
            for point in points
        ),
    )


def capacity_line(frame: charts.Frame, points: list[Point]) -> str:
    """Path of a capacity over time."""
    return charts.line(frame, [(point.as_of, point.capacity_score) for point in points], charts.FINE)


def read_fleet(
    marts: Marts,
    as_of: datetime,
    window_days: int,
    limit: int | None = None,
    *,
    days: int = HISTORY_DAYS,
    is_newest: bool = True,
) -> FleetView:
    """Read the fleet at an as-of that has scores in the window.

    :param limit: so many agents at most, the lowest.
    :param days: of history.
    :param is_newest: whether the as-of is the newest one, the only one whose alerts are kept.
    """
    first = as_of - timedelta(days=days)
    over_time = fleet_reading.capacity_over_time(marts, window_days, first=first, last=as_of, daily=True)
    scores = fleet_reading.scores(marts, as_of, window_days, limit=limit)
    hashes = [score.agent_id_hash for score in scores]
    names = {score.agent_name for score in scores}
    spreads = fleet_reading.spreads(marts, as_of, window_days)
    raised = [alert for alert in alerts(marts, window_days) if is_newest and alert.as_of >= as_of]
    shown = raised[:limit]
    return FleetView(
        as_of=as_of,
        window_days=window_days,
        capacity=over_time[-1],
        scores=scores,
        spreads=[spread for spread in spreads if limit is None or spread.agent_name in names],
        alerts=shown,
        alerts_left_out=len(raised) - len(shown),
        without_score=agents_reading.without_score(marts, as_of, window_days),
        over_time=over_time,
        capacities=history_reading.capacities(marts, hashes, window_days, first, as_of),
        frame=charts.Frame.of([row.as_of for row in over_time]),
    )
