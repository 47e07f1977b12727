"""Alerts and red flags at an as-of, each with the as-of since which it is raised, and the news between two as-ofs.

Red flags of selective reporting are reasons for a review and do not change a score.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from ciris_scoring.database.terminal import plural
from ciris_scoring.marts import scores as scores_of
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.score import Raised, Score, title
from ciris_scoring.marts.verdict import raised
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
ORDER_OF_ALERTS = """
    severity collate "C", kind collate "C", agent_name collate "C" nulls last, agent_id_hash collate "C", window_days
"""
ORDER_OF_FLAGS = """
    agent_name collate "C" nulls last, agent_id_hash collate "C", red_flag collate "C", field collate "C"
"""


def alerts(
    marts: Marts, as_of: datetime, window_days: int | None = None, *, agents: Sequence[str] | None = None
) -> list[Alert]:
    """Read the alerts at an as-of, critical alerts first. If a window or hashes of agents are given, read only the
    alerts of this window or of these agents."""
    found = _read(marts, Alert, "fct_capacity_alerts", ORDER_OF_ALERTS, as_of, window_days, agents)
    since = {
        (days, one.agent_id_hash, one.name): one.since
        for days in {row.window_days for row in found}
        for one in _raised(marts, days, as_of, agents, is_red_flag=False)
    }
    return [replace(row, since=since.get((row.window_days, row.agent_id_hash, row.kind))) for row in found]


def red_flags(marts: Marts, as_of: datetime, window_days: int, *, agents: Sequence[str] | None = None) -> list[RedFlag]:
    """Read the red flags that are raised at an as-of, ordered by agent."""
    found = _read(marts, RedFlag, "fct_red_flags", ORDER_OF_FLAGS, as_of, window_days, agents)
    raised_now = _raised(marts, window_days, as_of, agents, is_red_flag=True) if found else ()
    since = {(one.agent_id_hash, one.name): one.since for one in raised_now}
    return [replace(row, since=since.get((row.agent_id_hash, row.red_flag))) for row in found]


def _read(
    marts: Marts,
    kind: type[Row],
    mart: str,
    order: str,
    as_of: datetime,
    window_days: int | None,
    agents: Sequence[str] | None = None,
) -> list[Row]:
    return marts.rows(
        kind,
        f"""
        select {{columns}}
        from {{{mart}}}
        where
            as_of = %(as_of)s
            and (%(window_days)s::integer is null or window_days = %(window_days)s)
            and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))
        order by {order}
        """,
        as_of=as_of,
        window_days=window_days,
        agents=agents,
    )


def _raised(
    marts: Marts, window_days: int, as_of: datetime, agents: Sequence[str] | None, *, is_red_flag: bool
) -> Iterator[Raised]:
    for of_agent in raised(marts, window_days, as_of, agents=agents).values():
        yield from (one for one in of_agent if one.is_red_flag is is_red_flag)


def silent_agents(marts: Marts, as_of: datetime) -> set[tuple[str, int]]:
    """Return the hashes of the silent agents at an as-of, each with a window: those without a trace in the window, and
    those with the alert `silent`."""
    rows = marts.dicts(
        """
        select agent_id_hash, window_days
        from {fct_capacity_scores}
        where as_of = %(as_of)s and score_status = 'no_traces'

        union

        select agent_id_hash, window_days
        from {fct_capacity_alerts}
        where as_of = %(as_of)s and kind = 'silent'
        """,
        {"as_of": as_of},
    )
    return {(row["agent_id_hash"], row["window_days"]) for row in rows}


MOST_NAMED = 3
"""Number of agents that one line names. The others are only counted."""


Verdicts = Mapping[tuple[str, int], tuple[str, str | None]]
"""Label and published verdict of each agent at an as-of, by agent hash and window."""


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

    new_alerts: list[Alert] = field(default_factory=list)
    """Alerts that were not raised before, or were not critical."""
    ended_alerts: list[Alert] = field(default_factory=list)
    unmeasured_alerts: list[Alert] = field(default_factory=list)
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
            said = "newly silent" if alert.kind == "silent" else f"new {title(alert.kind)}"
            add(_label(alert), alert.window_days, f"{said}, {alert.severity}: ", message=f": {alert.message}")
        for alert in self.ended_alerts:
            add(_label(alert), alert.window_days, f"ended, {title(alert.kind)}: ")
        for alert in self.unmeasured_alerts:
            add(_label(alert), alert.window_days, f"silent, so no longer measured, {title(alert.kind)}: ")
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
    rows = marts.dicts(
        """
        select agent_id_hash, window_days, agent_label, verdict
        from {scored}
        where as_of = %(as_of)s and (%(window_days)s::integer is null or window_days = %(window_days)s)
        """,
        {"as_of": as_of, "window_days": window_days},
    )
    return {(row["agent_id_hash"], row["window_days"]): (row["agent_label"], row["verdict"]) for row in rows}


def changed_verdicts(before: Verdicts, now: Verdicts, causes: Mapping[tuple[str, int], str]) -> list[ChangedVerdict]:
    """Return the verdicts that changed, including those of new agents and of agents that have no row any more.

    :param causes: causes by agent hash and window.
    """
    changed = [
        ChangedVerdict(key[0], label, key[1], was, verdict, causes.get(key, ""))
        for key, (label, verdict) in sorted(now.items())
        if (was := before[key][1] if key in before else None) != verdict
    ]
    return changed + [
        ChangedVerdict(key[0], label, key[1], was, None, "no row any more")
        for key, (label, was) in sorted(before.items())
        if key not in now
    ]


def changed_alerts(
    before: Iterable[Alert], now: Iterable[Alert], silent: Collection[tuple[str, int]]
) -> tuple[list[Alert], list[Alert], list[Alert]]:
    """Return the alerts that are new or became critical, those that ended, and those that can no longer be measured.

    :param silent: result of `silent_agents`.
    """
    known, raised = ({_key(alert): alert for alert in alerts} for alerts in (before, now))
    new = [
        alert
        for key, alert in raised.items()
        if key not in known or (alert.severity == "critical" and known[key].severity != "critical")
    ]
    over = [alert for key, alert in known.items() if key not in raised]
    ended = [one for one in over if (one.agent_id_hash, one.window_days) not in silent or one.kind == "silent"]
    return new, ended, [one for one in over if one not in ended]


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
    earlier, later = (
        _read(marts, Alert, "fct_capacity_alerts", ORDER_OF_ALERTS, moment, window_days) for moment in (before, as_of)
    )
    verdicts_before, verdicts = (read_verdicts(marts, moment, window_days) for moment in (before, as_of))
    return News(
        *changed_alerts(earlier, later, silent_agents(marts, as_of)),
        changed_verdicts(verdicts_before, verdicts, shared_causes(scores)),
    )
