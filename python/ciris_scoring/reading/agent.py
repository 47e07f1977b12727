"""What is behind the scores of agents at an as-of: components, what they cost, and what changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True, slots=True)
class Component:
    """A row of fct_factor_components; units and nulls are those of the mart."""

    agent_id_hash: str
    factor: str
    component: str
    component_value: float | None
    component_low: float | None
    component_high: float | None
    design_effect: float | None


@dataclass(frozen=True, slots=True)
class PartLost:
    """A row of fct_score_attribution: what a part took from a score of 1."""

    agent_id_hash: str
    factor: str
    part: str
    loss: float | None
    points_lost: float
    rank: int
    score_left: float
    """What is left of 1 after this part and those of a lower rank."""


@dataclass(frozen=True, slots=True)
class PartChanged:
    """A row of fct_score_changes: what a part gained or lost since an earlier as-of."""

    agent_id_hash: str
    compared_with: str
    compared_as_of: datetime
    factor: str
    part: str
    loss_change: float | None
    points: float
    rank: int


NON_EXEMPT_ACTIONS = ("SPEAK", "TOOL", "MEMORIZE", "FORGET")
"""Actions that affect others or the agent's memory."""
EXEMPT_ACTIONS = ("OBSERVE", "PONDER", "DEFER", "REJECT", "RECALL", "TASK_COMPLETE")


def non_exempt_traces(
    marts: Marts,
    agents: Sequence[str],
    as_of: datetime,
    window_days: int,
) -> dict[str, int]:
    """Count the traces in a window whose action is not exempt, by agent; agents without one are left out.

    :param agents: hashes.
    """
    found = marts.dicts(
        """
        select agent_id_hash, count(*) as n
        from {fct_trace_verdicts}
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
    """Read the components of agents' scores at an as-of.

    :param agents: hashes.
    """
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


def attribution(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[PartLost]:
    """Read what took points from agents' scores at an as-of, per agent the largest first.

    :param agents: hashes.
    """
    return marts.rows(
        PartLost,
        """
        select
            agent_id_hash, factor, part, loss, points_lost, rank::integer as rank,
            greatest(1 - sum(points_lost) over (partition by agent_id_hash order by rank), 0) as score_left
        from {fct_score_attribution}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by agent_id_hash collate "C", rank
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )


def changes(
    marts: Marts,
    agents: Sequence[str],
    as_of: datetime,
    window_days: int,
    *,
    compared_with: str = "window",
) -> list[PartChanged]:
    """Read what agents' scores gained and lost by part up to an as-of, per agent the greatest loss first.

    :param agents: hashes.
    :param compared_with: window or as_of.
    """
    return marts.rows(
        PartChanged,
        """
        select {columns}
        from {fct_score_changes}
        where
            agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
            and compared_with = %(compared_with)s
        order by agent_id_hash collate "C", rank
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
        compared_with=compared_with,
    )
