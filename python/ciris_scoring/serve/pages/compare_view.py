"""Two agents beside each other: their score, factors and components, and whether their intervals lie apart."""

from dataclasses import dataclass

from ciris_scoring.basics.terminal import plural
from ciris_scoring.serve.pages import charts
from ciris_scoring.serve.pages.agent_view import AgentView


@dataclass(frozen=True)
class Value:
    """A number with its interval; nulls are those of the marts."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Compared:
    """A number of two agents."""

    name: str
    kind: str
    """score, factor or component."""
    left: Value
    right: Value

    @property
    def difference(self) -> float | None:
        """By how much the right one is larger."""
        if self.left.value is None or self.right.value is None:
            return None
        return self.right.value - self.left.value

    @property
    def is_apart(self) -> bool | None:
        """Whether the two intervals have nothing in common; None where one has none."""
        ends = (self.left.low, self.left.high, self.right.low, self.right.high)
        low, high, other_low, other_high = ends
        if low is None or high is None or other_low is None or other_high is None:
            return None
        return high < other_low or other_high < low


def both_told(left: AgentView, right: AgentView) -> list[charts.Told]:
    """What the chart says of each as-of of the left one, and of the right one then."""
    theirs = {x: said.partition(": ")[2] for x, _, said in right.told}
    names = [view.score.agent_name or view.score.agent_id_hash for view in (left, right)]
    return [
        (x, y, f"{when}: {names[0]} {said}; {names[1]} {theirs.get(x, 'no score')}")
        for x, y, (when, _, said) in ((x, y, whole.partition(": ")) for x, y, whole in left.told)
    ]


def compared(left: AgentView, right: AgentView) -> list[Compared]:
    """Everything that both have, the score first."""
    scores = [
        Compared(
            name,
            "score",
            *(
                Value(
                    getattr(view.score, column),
                    getattr(view.score, f"{column}_low"),
                    getattr(view.score, f"{column}_high"),
                )
                for view in (left, right)
            ),
        )
        for name, column in (
            ("Steady score", "capacity_score_steady"),
            (f"Score of {plural(left.score.window_days, 'day')}", "capacity_score"),
        )
    ]
    rows = scores
    for mine, theirs in zip(left.score.factors, right.score.factors, strict=True):
        values = (Value(factor.score, factor.low, factor.high) for factor in (mine, theirs))
        rows.append(Compared(mine.name, "factor", *values))
        others = {component.component: component for component in right.components_of(mine.name)}
        for component in left.components_of(mine.name):
            if component.component in others and component.component_low is not None:
                values = (
                    Value(one.component_value, one.component_low, one.component_high)
                    for one in (component, others[component.component])
                )
                rows.append(Compared(component.component, "component", *values))
    return rows
