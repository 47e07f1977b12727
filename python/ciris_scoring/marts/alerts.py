"""Alerts and red flags at an as-of, each with the as-of since which it has been raised.

Red flags of selective reporting are reasons for a review and do not change a score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TypeVar

from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.score import Raised
from ciris_scoring.marts.verdict import AS_OF_MEANT, raised


@dataclass(frozen=True, slots=True)
class Alert:
    """A row of fct_capacity_alerts, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    agent_label: str
    as_of: datetime
    window_days: int
    kind: str
    severity: str
    value: float
    threshold: float
    message: str
    since: datetime | None = None
    """See `Raised.since`."""


@dataclass(frozen=True, slots=True)
class AlertNews(Alert):
    """An alert that is new or is no longer raised."""

    no_trace_since: datetime | None = None
    """Time of the agent's last trace, if the agent is silent. The alert is then not ended: it can no longer be
    measured."""

    @classmethod
    def of(cls, alert: Alert, silent: Mapping[tuple[str, int], datetime]) -> "AlertNews":
        """Return an alert with the time of its agent's last trace, from the result of `last_traces`."""
        return cls(**asdict(alert), no_trace_since=silent.get((alert.agent_id_hash, alert.window_days)))


@dataclass(frozen=True, slots=True)
class RedFlag:
    """A row of fct_red_flags, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    agent_label: str
    as_of: datetime
    window_days: int
    red_flag: str
    field: str | None
    z: float | None
    message: str
    since: datetime | None = None


Row = TypeVar("Row", Alert, RedFlag)


def alerts(
    marts: Marts, as_of: datetime, window_days: int | None = None, *, agents: Sequence[str] | None = None
) -> list[Alert]:
    """Read the alerts at an as-of (see `AS_OF_MEANT`), critical alerts first. If a window or hashes of agents are
    given, read only the alerts of this window or of these agents."""
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
    spans = {
        (window, one.agent_id_hash, one.name): one
        for window in {alert.window_days for alert in found}
        for of_agent in raised(marts, window, as_of, agents=agents).values()
        for one in of_agent
        if not one.is_red_flag
    }
    return [_dated(row, spans.get((row.window_days, row.agent_id_hash, row.kind))) for row in found]


def red_flags(marts: Marts, as_of: datetime, window_days: int, *, agents: Sequence[str] | None = None) -> list[RedFlag]:
    """Read the red flags that are raised at an as-of, ordered by agent."""
    found = marts.rows(
        RedFlag,
        """
        select {columns}
        from {fct_red_flags}
        where
            as_of = %(as_of)s
            and window_days = %(window_days)s
            and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))
        order by agent_name collate "C" nulls last, agent_id_hash collate "C", red_flag collate "C", field collate "C"
        """,
        as_of=as_of,
        window_days=window_days,
        agents=agents,
    )
    spans = {
        (one.agent_id_hash, one.name): one
        for of_agent in raised(marts, window_days, as_of, agents=agents).values()
        for one in of_agent
        if one.is_red_flag
    }
    return [_dated(row, spans.get((row.agent_id_hash, row.red_flag))) for row in found]


def _dated(row: Row, span: Raised | None) -> Row:
    return row if span is None else replace(row, since=span.since)


def closed_alerts(marts: Marts, as_of: datetime, window_days: int, first: datetime) -> list[AlertNews]:
    """Read the alerts that were raised at an as-of from ``first`` on and are not raised any more. The alert that was
    raised last comes first. Each result is the row of the last as-of at which the alert was raised, with
    ``no_trace_since`` if the agent has been silent since.
    """
    found = marts.rows(
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
    silent = last_traces(marts, as_of)
    return [AlertNews.of(alert, silent) for alert in found]


def last_traces(marts: Marts, as_of: datetime) -> dict[tuple[str, int], datetime]:
    """Return the times of the last traces of the silent agents at an as-of, by agent hash and window: of those without
    a trace in the window, and of those with the alert `silent`."""
    rows = marts.dicts(
        """
        select agent_id_hash, window_days, last_traced_at
        from {fct_capacity_scores}
        where as_of = %(as_of)s and score_status = 'no_traces'

        union

        select agent_id_hash, window_days, as_of - make_interval(secs => value * 86400)
        from {fct_capacity_alerts}
        where as_of = %(as_of)s and kind = 'silent'
        """,
        {"as_of": as_of},
    )
    return {(row["agent_id_hash"], row["window_days"]): row["last_traced_at"] for row in rows}
