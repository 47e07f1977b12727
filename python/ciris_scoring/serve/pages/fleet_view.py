"""What the page of the fleet shows, read from the marts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ciris_scoring.basics.terminal import plural
from ciris_scoring.reading import fleet as fleet_reading
from ciris_scoring.reading import history as history_reading
from ciris_scoring.reading.agents import Unscored, unscored
from ciris_scoring.reading.fleet import FleetCapacity, Score
from ciris_scoring.reading.marts import Marts, grouped
from ciris_scoring.reading.verdict import Verdict
from ciris_scoring.serve.pages import charts
from ciris_scoring.serve.pages.words import shown

HISTORY_DAYS = 60
"""Of the charts, where nothing else is asked for."""
RANGES = (30, 60, 180, 365)
"""Days of history that the pages of a server offer."""


@dataclass(frozen=True)
class Spread:
    """The agents of one name, and their steady scores, the lowest first."""

    agent_name: str
    n_agents: int
    steady: list[float]


def spreads_of(scores: Iterable[Score]) -> list[Spread]:
    """The names that several agents bear; the most borne first."""
    by_name = grouped((score for score in scores if score.agent_name is not None), "agent_name")
    spreads = (
        Spread(
            name, len(of), sorted(s.capacity_score_steady for s in of if s.capacity_score_steady is not None)
        )
        for name, of in by_name.items()
        if len(of) > 1
    )
    return sorted(spreads, key=lambda spread: (-spread.n_agents, spread.agent_name))


@dataclass(frozen=True)
class FleetView:
    """The fleet at an as-of in a window."""

    capacity: FleetCapacity
    threshold: float | None
    """Steady score that the permission of the verdicts asks for; None where no threshold is asked for and no agent has
    a score."""
    scores: list[Score]
    """Who needs attention first; all of them, or as many as were asked for."""
    verdicts: Mapping[str, Verdict]
    """Of every agent."""
    spreads: list[Spread]
    raised: Mapping[str, Mapping[str, int]]
    """Agents with each alert and each sign, the most frequent first: by `alerts` and `signs`."""
    without_trace: list[Unscored]
    """Agents that had begun before and sent none in the window."""
    over_time: list[FleetCapacity]
    capacities: Mapping[str, list[tuple[datetime, float | None]]]
    """Steady scores over time."""
    frame: charts.Frame

    @property
    def left_out(self) -> int:
        """Agents that are not among the scores."""
        return self.capacity.n_agents - len(self.scores)

    @property
    def folded(self) -> dict[str, int]:
        """Number of each name that several agents bear."""
        return {spread.agent_name: i for i, spread in enumerate(self.spreads)}

    def n_with(self, verdict: str) -> int:
        """Agents with a verdict."""
        return sum(one.verdict == verdict for one in self.verdicts.values())

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
        """Path of an agent's steady score over time."""
        return charts.line(self.frame, self.capacities.get(agent_id_hash, []), charts.FINE)


def read_fleet(
    marts: Marts,
    as_of: datetime,
    window_days: int,
    threshold: float | None,
    limit: int | None = None,
    *,
    days: int = HISTORY_DAYS,
) -> FleetView:
    """Read the fleet at an as-of that has scores in the window.

    :param threshold: steady score that the permission asks for; None for that of the published verdicts.
    :param limit: so many agents at most, those that need attention first.
    :param days: of history.
    """
    first = as_of - timedelta(days=days)
    over_time = fleet_reading.capacity_over_time(marts, window_days, first=first, last=as_of, daily=True)
    scores = fleet_reading.scores(marts, as_of, window_days)
    verdicts = {score.agent_id_hash: score.verdict(threshold) for score in scores}
    raised = {
        kind: dict(
            Counter(one.name for s in scores for one in s.raised if one.is_sign == is_sign).most_common()
        )
        for kind, is_sign in (("alerts", False), ("signs", True))
    }
    spreads = spreads_of(scores)
    scores.sort(key=lambda score: fleet_reading.attention(score, threshold))
    scores = scores[:limit]
    hashes = [score.agent_id_hash for score in scores]
    names = {score.agent_name for score in scores}
    return FleetView(
        capacity=over_time[-1],
        threshold=next((verdict.threshold for verdict in verdicts.values()), threshold),
        scores=scores,
        verdicts=verdicts,
        spreads=[spread for spread in spreads if limit is None or spread.agent_name in names],
        raised=raised,
        without_trace=[agent for agent in unscored(marts, as_of, window_days) if agent.score_status is None],
        over_time=over_time,
        capacities=history_reading.capacities(marts, hashes, window_days, first, as_of),
        frame=charts.Frame.of([row.as_of for row in over_time]),
    )
