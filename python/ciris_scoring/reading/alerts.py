"""The alerts at the fleet's newest as-of."""

from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True, slots=True)
class Alert:
    """A row of fct_capacity_alerts; units and nulls are those of the mart."""

    agent_id_hash: str
    agent_name: str | None
    as_of: datetime
    window_days: int
    kind: str
    severity: str
    value: float
    threshold: float
    message: str


def alerts(marts: Marts, window_days: int | None = None, *, agent_id_hash: str | None = None) -> list[Alert]:
    """Read the alerts of the newest as-of, the critical ones first; an as-of that scored nobody has alerts too.

    :param window_days: only those of this window.
    :param agent_id_hash: only this agent's.
    """
    return marts.rows(
        Alert,
        """
        select {columns}
        from {fct_capacity_alerts}
        where
            as_of = greatest(
                (select max(as_of) from {fct_fleet_capacity}), (select max(as_of) from {fct_capacity_alerts})
            )
            and (%(window_days)s::integer is null or window_days = %(window_days)s)
            and (%(agent_id_hash)s::text is null or agent_id_hash = %(agent_id_hash)s)
        order by severity, kind, agent_name collate "C" nulls last, agent_id_hash, window_days
        """,
        window_days=window_days,
        agent_id_hash=agent_id_hash,
    )
