"""Alerts and red flags at an as-of, each with the as-of since which it is raised, and the news between two as-ofs.

Red flags of selective reporting are reasons for a review and do not change a score.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, TypeVar

from ciris_scoring.database.terminal import plural
from ciris_scoring.marts import scores as scores_of
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.score import Raised, Score, day, title
from ciris_scoring.marts.verdict import AS_OF_MEANT, raised
from ciris_scoring.names import HASH_SHOWN


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
    value: float
    comparison_value: float | None
    compared_with: str | None
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


MOST_NAMED = 3
"""Number of agents that one line names. The others are only counted."""


class PublishedVerdict(NamedTuple):
    """A row of fct_verdicts with the label of its agent."""

    agent_id_hash: str
    window_days: int
    agent_label: str
    verdict: str | None


Verdicts = Mapping[tuple[str, int], PublishedVerdict]
"""Published verdicts of an as-of, by agent hash and window."""


@dataclass(frozen=True, slots=True)
class ChangedVerdict:
    """A verdict that differs from the earlier one, the verdict of a new agent, or of one that has no row any more."""

    agent_id_hash: str
    agent_label: str
    window_days: int
    before: str | None
    now: str | None
    because: str = ""
    """Main cause now, in words that are equal for agents with the same cause; empty if nothing lowers the score."""


@dataclass
class News:
    """News since an earlier as-of or run."""

    new_alerts: list[AlertNews] = field(default_factory=list)
    """Alerts that were not raised before, or were not critical."""
    ended_alerts: list[AlertNews] = field(default_factory=list)
    unmeasured_alerts: list[AlertNews] = field(default_factory=list)
    """Alerts that can no longer be measured, because the agent has sent no trace in the window."""
    changed_verdicts: list[ChangedVerdict] = field(default_factory=list)

    def counts(self) -> list[str]:
        """Return for each kind of news its number, for example "2 new alerts"."""
        kinds = (
            (self.new_alerts, "new alert", None),
            (self.ended_alerts, "ended alert", None),
            (self.unmeasured_alerts, "alert that can no longer be measured", "alerts that can no longer be measured"),
            (self.changed_verdicts, "changed verdict", None),
        )
        return [plural(len(rows), one, many) for rows, one, many in kinds if rows]

    def lines(self) -> list[str]:
        """Return the news as text, changed verdicts first. Equal news of several agents are one line."""
        found: dict[tuple[str, str], list[tuple[str, str]]] = {}
        alerts = (*self.new_alerts, *self.ended_alerts, *self.unmeasured_alerts)
        windows = {one.window_days for one in alerts} | {one.window_days for one in self.changed_verdicts}

        def add(agent: str, window_days: int, before: str, after: str = "", message: str = "") -> None:
            where = f" in {plural(window_days, 'day')}" if len(windows) > 1 else ""
            found.setdefault((before, f"{where}{after}"), []).append((agent, message))

        for one in self.changed_verdicts:
            changed = f"{one.before or 'no verdict'} -> {one.now or 'no verdict'}"
            add(one.agent_label, one.window_days, "", ": " + "; ".join(filter(None, (one.because, changed))))
        for alert in self.new_alerts:
            since = "" if alert.no_trace_since is None else f" since {day(alert.no_trace_since)}"
            said = f"newly silent{since}" if alert.kind == "silent" else f"new {title(alert.kind)}"
            add(_label(alert), alert.window_days, f"{said}, {alert.severity}: ", message=f": {alert.message}")
        for alert in self.ended_alerts:
            add(_label(alert), alert.window_days, f"ended, {title(alert.kind)}: ")
        for alert in self.unmeasured_alerts:
            since = "" if alert.no_trace_since is None else f": no trace since {day(alert.no_trace_since)}"
            add(_label(alert), alert.window_days, f"can no longer be measured{since}, {title(alert.kind)}: ")
        return [
            f"{before}{_named([agent for agent, _ in of])}{after}{of[0][1] if len(of) == 1 else ''}"
            for (before, after), of in found.items()
        ]


def _label(alert: Alert) -> str:
    return f"{alert.agent_name or 'unnamed'} ({alert.agent_id_hash[:HASH_SHOWN]})"


def _named(agents: Sequence[str]) -> str:
    return ", ".join(agents) if len(agents) <= MOST_NAMED else plural(len(agents), "agent")


def read_verdicts(marts: Marts, as_of: datetime, window_days: int | None = None) -> Verdicts:
    """Return the published verdicts of an as-of."""
    rows = marts.rows(
        PublishedVerdict,
        """
        select {columns}
        from {scored}
        where as_of = %(as_of)s and (%(window_days)s::integer is null or window_days = %(window_days)s)
        """,
        as_of=as_of,
        window_days=window_days,
    )
    return {(row.agent_id_hash, row.window_days): row for row in rows}


def changed_verdicts(before: Verdicts, now: Verdicts, causes: Mapping[tuple[str, int], str]) -> list[ChangedVerdict]:
    """Return the verdicts that changed, including those of new agents and of agents that have no row any more.

    :param causes: causes by agent hash and window.
    """
    changed = [
        ChangedVerdict(key[0], row.agent_label, key[1], was, row.verdict, causes.get(key, ""))
        for key, row in sorted(now.items())
        if (was := before[key].verdict if key in before else None) != row.verdict
    ]
    gone = (row for key, row in sorted(before.items()) if key not in now)
    return changed + [
        ChangedVerdict(row.agent_id_hash, row.agent_label, row.window_days, row.verdict, None, "no row any more")
        for row in gone
    ]


def changed_alerts(
    before: Iterable[Alert], now: Iterable[Alert], silent: Mapping[tuple[str, int], datetime]
) -> tuple[list[AlertNews], list[AlertNews], list[AlertNews]]:
    """Return the alerts that are new or became critical, those that ended, and those that can no longer be measured.

    :param silent: times of the last traces of silent agents, by agent hash and window.
    """
    known, raised = ({_key(alert): alert for alert in alerts} for alerts in (before, now))
    new = [
        AlertNews.of(alert, silent)
        for key, alert in raised.items()
        if key not in known or (alert.severity == "critical" and known[key].severity != "critical")
    ]
    over = [AlertNews.of(alert, silent) for key, alert in known.items() if key not in raised]
    ended = [alert for alert in over if alert.no_trace_since is None or alert.kind == "silent"]
    return new, ended, [alert for alert in over if alert not in ended]


def _key(alert: Alert) -> tuple[str, int, str]:
    return alert.agent_id_hash, alert.window_days, alert.kind


def shared_causes(scores: Iterable[Score]) -> dict[tuple[str, int], str]:
    """Return the causes of scores in words that are equal for agents with the same cause."""
    return {(score.agent_id_hash, score.window_days): score.shared_cause for score in scores}


def since_before(marts: Marts, as_of: datetime, window_days: int, scores: Sequence[Score]) -> News:
    """Return the news of a window since the as-of before; no news at the first as-of.

    :param scores: scores at the as-of.
    """
    before = scores_of.as_of_before(marts, as_of, window_days)
    if before is None:
        return News()
    rows = marts.rows(
        Alert,
        """
        select {columns}
        from {fct_capacity_alerts}
        where as_of in (%(before)s, %(as_of)s) and window_days = %(window_days)s
        order by severity collate "C", kind collate "C", agent_name collate "C" nulls last, agent_id_hash collate "C"
        """,
        before=before,
        as_of=as_of,
        window_days=window_days,
    )
    earlier, later = ([row for row in rows if row.as_of == moment] for moment in (before, as_of))
    verdicts_before, verdicts = (read_verdicts(marts, moment, window_days) for moment in (before, as_of))
    return News(
        *changed_alerts(earlier, later, last_traces(marts, as_of)),
        changed_verdicts(verdicts_before, verdicts, shared_causes(scores)),
    )
