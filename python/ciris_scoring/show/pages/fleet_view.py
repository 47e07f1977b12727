"""Data of the fleet's page, read from the marts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ciris_scoring.database.terminal import plural
from ciris_scoring.kinds import KINDS
from ciris_scoring.marts import fleet as fleet_reading
from ciris_scoring.marts import history as history_reading
from ciris_scoring.marts import verdict as verdicts_reading
from ciris_scoring.marts.agents import Unscored, unscored
from ciris_scoring.marts.fleet import FleetCapacity
from ciris_scoring.marts.marts import Marts, grouped
from ciris_scoring.marts.news import News, since_before
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.score import Score
from ciris_scoring.marts.verdict import Verdict, verdict
from ciris_scoring.show.pages import charts
from ciris_scoring.show.pages.words import shown

HISTORY_DAYS = 60
"""Default days of history in the charts."""
RANGES = (30, 60, 180, 365)
"""Days of history that the pages of the server offer."""

NEW_SINCE = (("in the last day", 1), ("in the last week", 7))
"""Recent time ranges in which alerts count as new: name and length in days."""


@dataclass(frozen=True)
class Spread:
    """Agents that share a name."""

    agent_name: str
    n_agents: int
    scores: list[float]
    """Capacity scores of the agents in ascending order, without agents that have none."""


def spreads_of(scores: Iterable[Score]) -> list[Spread]:
    """Return the names that several agents share, the most frequent first."""
    by_name = grouped((score for score in scores if score.agent_name is not None), "agent_name")
    spreads = (
        Spread(name, len(of), sorted(s.capacity_score for s in of if s.capacity_score is not None))
        for name, of in by_name.items()
        if len(of) > 1
    )
    return sorted(spreads, key=lambda spread: (-spread.n_agents, spread.agent_name))


@dataclass(frozen=True)
class FleetView:
    """Data of the fleet at an as-of in a window."""

    capacity: FleetCapacity
    threshold: float | None
    """Threshold of the verdicts. None if no threshold was requested and no agent has a row in the window."""
    scores: list[Score]
    """Scores of agents, the most urgent agent first, limited to the requested number."""
    verdicts: Mapping[str, Verdict]
    """Verdicts of all agents by hash."""
    spreads: list[Spread]
    categories: Counter[str | None]
    """Numbers of agents by category; None for agents without a capacity score."""
    elsewhere: Mapping[str, Sequence[str]]
    """Sentences about alerts and red flags that only another window has, by agent hash."""
    new: Sequence[tuple[str, datetime, int]]
    """Recent time ranges: name, first as-of, and number of agents with an alert or red flag that began after this
    as-of."""
    raised: Mapping[str, Mapping[str, int]]
    """Under the keys `alerts` and `red_flags`: numbers of agents by name, the most frequent first."""
    without_trace: list[Unscored]
    """Agents that sent traces before the window, but no trace in the window, and are not silent."""
    news: News
    """News since the as-of before."""
    over_time: list[FleetCapacity]
    capacities: Mapping[str, list[tuple[datetime, float | None]]]
    """Capacity scores over time by agent hash."""
    frame: charts.Frame

    @property
    def folded(self) -> dict[str, int]:
        """Index in ``spreads`` of each name that several agents share."""
        return {spread.agent_name: i for i, spread in enumerate(self.spreads)}

    def n_with(self, verdict: str) -> int:
        """Return the number of agents with the given verdict."""
        return sum(one.verdict == verdict for one in self.verdicts.values())

    def to_do(self, score: Score) -> Iterator[str]:
        """Yield sentences on what to do about an agent: the question about its most urgent alert or red flag, and
        alerts of other windows. The alert low_capacity is the least urgent, because other alerts can explain it.
        """
        first = min(score.raised, key=lambda one: (not one.reviews, one.name == "low_capacity"), default=None)
        if first is not None and first.name in KINDS:
            yield KINDS[first.name].ask
        yield from self.elsewhere.get(score.agent_id_hash, ())

    def line(self, column: str) -> str:
        """Return the SVG path of a column of fct_fleet_capacity over time."""
        points = [(row.as_of, getattr(row, column)) for row in self.over_time]
        return charts.line(self.frame, points, charts.FINE)

    @property
    def told(self) -> list[charts.Told]:
        """Labels of the chart, one for each as-of."""
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
        """Return the SVG path of an agent's capacity score over time."""
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
    """Read the fleet at an as-of for which the window has scores.

    :param threshold: see `verdict`.
    :param limit: maximum number of scores. The scores of the most urgent agents are read.
    """
    first = as_of - timedelta(days=days)
    over_time = fleet_reading.capacity_over_time(marts, window_days, first=first, last=as_of, daily=True)
    scores = fleet_reading.scores(marts, as_of, window_days)
    verdicts = {score.agent_id_hash: verdict(score, threshold) for score in scores}
    news = since_before(marts, as_of, window_days, scores)
    every = [one for score in scores for one in score.raised]
    raised = {
        kind: dict(Counter(one.name for one in every if one.is_red_flag == is_red_flag).most_common())
        for kind, is_red_flag in (("alerts", False), ("red_flags", True))
    }
    spreads = spreads_of(scores)
    categories = Counter(score.category for score in scores)
    new = [
        (said, since, sum(s.new_since is not None and s.new_since > since for s in scores))
        for said, since in ((said, as_of - timedelta(days=back)) for said, back in NEW_SINCE)
    ]
    scores.sort(key=lambda score: fleet_reading.attention(score, threshold))
    scores = scores[:limit]
    hashes = [score.agent_id_hash for score in scores]
    names = {score.agent_name for score in scores}
    return FleetView(
        capacity=over_time[-1],
        threshold=next((one.threshold for one in verdicts.values()), threshold),
        scores=scores,
        verdicts=verdicts,
        spreads=[spread for spread in spreads if limit is None or spread.agent_name in names],
        categories=categories,
        elsewhere=_elsewhere(marts, as_of, window_days, scores),
        new=new,
        raised=raised,
        without_trace=[agent for agent in unscored(marts, as_of, window_days) if agent.score_status is None],
        news=news,
        over_time=over_time,
        capacities=history_reading.capacities(marts, hashes, window_days, first, as_of),
        frame=charts.Frame.of([row.as_of for row in over_time]),
    )


def _elsewhere(marts: Marts, as_of: datetime, window_days: int, scores: Iterable[Score]) -> Mapping[str, list[str]]:
    """Return sentences about alerts and red flags that agents have only in another window, by agent hash."""
    here = {score.agent_id_hash: {one.name for one in score.raised} for score in scores}
    found: dict[str, list[str]] = {}
    for other in windows(marts):
        if other.window_days == window_days:
            continue
        for agent, of_agent in verdicts_reading.raised(marts, other.window_days, as_of).items():
            more = [one.words for one in of_agent if one.name not in here.get(agent, ())]
            if more:
                sentence = f"In {plural(other.window_days, 'day')}: {', '.join(more)}."
                found.setdefault(agent, []).append(sentence)
    return found
