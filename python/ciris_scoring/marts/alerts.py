"""Alerts at an as-of, each with the as-of since which it has been raised."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ciris_scoring.marts.acknowledgements import Acknowledgement
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import AS_OF_MEANT, raised


@dataclass(frozen=True, slots=True)
class Alert:
    """A row of fct_capacity_alerts, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    as_of: datetime
    window_days: int
    kind: str
    severity: str
    value: float
    threshold: float
    message: str
    since: datetime | None = None
    """See `Raised.since`."""
    seen: Acknowledgement | None = None
    """Acknowledgement that is in force, or None."""


def alerts(
    marts: Marts, as_of: datetime, window_days: int | None = None, *, agents: Sequence[str] | None = None
) -> list[Alert]:
    """Read the alerts at an as-of, critical alerts first, acknowledged ones last.

    :param as_of: as-of of the alerts. At the newest as-of, alerts of later runs that scored no agent are included.
    :param window_days: read only the alerts of this window.
    :param agents: read only the alerts of the agents with these hashes.
    """
    found = marts.rows(
        Alert,
        f"""
        with {AS_OF_MEANT}

        select {{columns}}
        from {{fct_capacity_alerts}}
        where
            as_of = (select meant.as_of from meant)
            and (%(window_days)s::integer is null or window_days = %(window_days)s)
            and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))
        order by
            severity collate "C", kind collate "C", agent_name collate "C" nulls last, agent_id_hash collate "C",
            window_days
        """,
        as_of=as_of,
        window_days=window_days,
        agents=agents,
    )
    raised_now = {
        (window, one.agent_id_hash, one.name): one
        for window in {alert.window_days for alert in found}
        for of_agent in raised(marts, window, as_of, agents=agents).values()
        for one in of_agent
        if not one.is_red_flag
    }
    for number, alert in enumerate(found):
        if one := raised_now.get((alert.window_days, alert.agent_id_hash, alert.kind)):
            found[number] = replace(alert, since=one.since, seen=one.seen)
    return sorted(found, key=lambda alert: alert.seen is not None)


def closed_alerts(marts: Marts, as_of: datetime, window_days: int, first: datetime) -> list[Alert]:
    """Read the closed alerts: those raised at an as-of from ``first`` on, but no longer raised. The last closed comes
    first. Each is the row of the last as-of at which the alert was raised.
    """
    return marts.rows(
        Alert,
        f"""
        with {AS_OF_MEANT},

        last as (
            select distinct on (agent_id_hash, kind) {{columns}}
            from {{fct_capacity_alerts}}
            where
                window_days = %(window_days)s
                and as_of >= %(first)s
                and as_of <= (select meant.as_of from meant)
            order by agent_id_hash, kind, as_of desc
        )

        select {{columns}}
        from last
        where as_of < (select meant.as_of from meant)
        order by as_of desc, agent_id_hash collate "C", kind collate "C"
        """,
        as_of=as_of,
        window_days=window_days,
        first=first,
    )
