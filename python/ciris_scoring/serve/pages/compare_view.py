"""Comparison of two agents: scores, factors and components, and whether their intervals overlap."""

from dataclasses import dataclass

from ciris_scoring.basics.names import FACTORS, Estimate
from ciris_scoring.serve.pages import charts
from ciris_scoring.serve.pages.agent_view import AgentView


@dataclass(frozen=True)
class Compared:
    """A value of two agents."""

    name: str
    kind: str
    """One of score, factor, component."""
    left: Estimate
    right: Estimate

    @property
    def difference(self) -> float | None:
        """Value of the right agent minus value of the left agent, or None if a value is missing."""
        if self.left.value is None or self.right.value is None:
            return None
        return self.right.value - self.left.value

    @property
    def is_apart(self) -> bool | None:
        """Whether the intervals of the two agents do not overlap, or None if an interval is missing."""
        (_, low, high), (_, other_low, other_high) = self.left, self.right
        if low is None or high is None or other_low is None or other_high is None:
            return None
        return high < other_low or other_high < low


def both_told(left: AgentView, right: AgentView) -> list[charts.Told]:
    """Return the labels of a chart of both agents, one for each as-of of the left agent."""
    theirs = {x: said.partition(": ")[2] for x, _, said in right.told}
    names = [view.score.agent_name or view.score.agent_id_hash for view in (left, right)]
    return [
        (x, y, f"{when}: {names[0]} {said}; {names[1]} {theirs.get(x, 'no score')}")
        for x, y, (when, _, said) in ((x, y, whole.partition(": ")) for x, y, whole in left.told)
    ]


def compared(left: AgentView, right: AgentView) -> list[Compared]:
    """Return the values to compare: scores, and for each factor its value and the components with an interval."""

    def of_scores(name: str, kind: str, column: str) -> Compared:
        return Compared(name, kind, *(Estimate.of(view.score, column) for view in (left, right)))

    rows = [
        of_scores("Capacity score", "score", "capacity_score"),
        of_scores("Steady score", "score", "capacity_score_steady"),
    ]
    for factor, column in FACTORS.items():
        rows.append(of_scores(factor, "factor", column))
        others = {component.component: component for component in right.components}
        for component in (one for one in left.components if one.factor == factor):
            if component.component in others and component.component_low is not None:
                values = (
                    Estimate(one.component_value, one.component_low, one.component_high)
                    for one in (component, others[component.component])
                )
                rows.append(Compared(component.component, "component", *values))
    return rows
