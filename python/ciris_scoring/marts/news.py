"""News between two as-ofs: verdicts that changed, and alerts that are new, ended or can no longer be measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ciris_scoring.database.terminal import plural
from ciris_scoring.marts import fleet
from ciris_scoring.marts.alerts import Alert, AlertNews, last_traces
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.score import Score, day, title
from ciris_scoring.names import HASH_SHOWN

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
    before = fleet.neighbours(marts, as_of, window_days).before
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
