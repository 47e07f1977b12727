"""The alerts at the fleet's latest as-of."""

from dataclasses import dataclass
from datetime import datetime

import psycopg

from ciris_scoring.reading.marts import rows
from ciris_scoring.relations import Relations


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


def alerts(
    connection: psycopg.Connection,
    relations: Relations,
    window_days: int | None = None,
    *,
    agent_id_hash: str | None = None,
) -> list[Alert]:
    """Read the alerts, the critical ones first.

    :param window_days: only those of this window.
    :param agent_id_hash: only this agent's.
    :raises psycopg.Error: the marts cannot be read.
    """
    return rows(
        connection,
        relations,
        Alert,
        """
        select agent_id_hash, agent_name, as_of, window_days, kind, severity, value, threshold, message
        from {fct_capacity_alerts}
        where
            (%(window_days)s::integer is null or window_days = %(window_days)s)
            and (%(agent_id_hash)s::text is null or agent_id_hash = %(agent_id_hash)s)
        order by severity, kind, agent_name collate "C" nulls last, agent_id_hash, window_days
        """,
        {"window_days": window_days, "agent_id_hash": agent_id_hash},
    )
