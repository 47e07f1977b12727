"""Components of agents' scores at an as-of, the points that each loss component costs, and the changes of these points.

Agents are given by their hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.marts.marts import Marts
from ciris_scoring.names import NON_EXEMPT_ACTIONS


@dataclass(frozen=True, slots=True)
class Component:
    """A row of fct_factor_components, with the same units and nulls."""

    agent_id_hash: str
    factor: str
    component: str
    component_value: float | None


@dataclass(frozen=True, slots=True)
class ComponentLoss:
    """A row of fct_score_attribution: the points that one loss component takes from a score of 1."""

    agent_id_hash: str
    factor: str
    loss_component: str
    loss: float | None
    points_lost: float
    rank: int
    score_left: float
    """1 minus the points of this loss component and of all components that lost more points (ranks 1 to ``rank``)."""


@dataclass(frozen=True, slots=True)
class ComponentChange:
    """A row of fct_score_changes: the points that a loss component gained or lost since an earlier as-of."""

    agent_id_hash: str
    compared_with: str
    compared_as_of: datetime
    factor: str
    loss_component: str
    loss_change: float | None
    points: float
    rank: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of fct_score_comparisons, with the same units and nulls."""

    agent_id_hash: str
    compared_with: str
    compared_as_of: datetime
    score_before: float | None
    score_now: float | None
    change: float | None
    not_comparable_because: str | None


def non_exempt_traces(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> dict[str, int]:
    """Count the traces with a non-exempt action in a window, by agent hash. Agents without such a trace are not in the
    result.
    """
    found = marts.dicts(
        """
        select agent_id_hash, count(*) as n
        from {fct_trace_checks}
        where
            agent_id_hash = any(%(agents)s)
            and traced_at >= %(as_of)s::timestamptz - make_interval(hours => 24 * %(window_days)s)
            and traced_at < %(as_of)s
            and is_counted
            and selected_action = any(%(actions)s)
        group by agent_id_hash
        """,
        {
            "agents": list(agents),
            "as_of": as_of,
            "window_days": window_days,
            "actions": list(NON_EXEMPT_ACTIONS),
        },
    )
    return {row["agent_id_hash"]: row["n"] for row in found}


def components(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[Component]:
    """Read the components of agents' scores at an as-of."""
    return marts.rows(
        Component,
        """
        select {columns}
        from {fct_factor_components}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by
            agent_id_hash collate "C", array_position(array['C', 'I_int', 'R', 'I_inc', 'S'], factor),
            component collate "C"
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )


def attribution(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[ComponentLoss]:
    """Read the loss components of agents' scores at an as-of, for each agent the largest loss first."""
    return marts.rows(
        ComponentLoss,
        """
        select
            agent_id_hash, factor, loss_component, loss, points_lost, rank::integer as rank,
            greatest(1 - sum(points_lost) over (partition by agent_id_hash order by rank), 0) as score_left
        from {fct_score_attribution}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by agent_id_hash collate "C", rank
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )


def comparisons(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[Comparison]:
    """Read the comparisons of agents' scores with earlier ones, for each agent the earliest first."""
    return marts.rows(
        Comparison,
        """
        select {columns}
        from {fct_score_comparisons}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by agent_id_hash collate "C", compared_as_of, compared_with desc
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )


def changes(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[ComponentChange]:
    """Read by how many points each loss component changed agents' scores, for each agent and comparison the greatest
    fall first."""
    return marts.rows(
        ComponentChange,
        """
        select {columns}
        from {fct_score_changes}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by agent_id_hash collate "C", rank
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )
