"""Notify people of news since the previous run: alerts, verdicts, and runs that failed or were refused.

A run posts at most one message to each address: JSON with a member `text`, as Slack, Mattermost and relays read it. An
address may contain a secret, so it is never shown.
"""

import re
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from ciris_scoring.basics.as_of import text as time_text
from ciris_scoring.basics.errors import InputError, one_line
from ciris_scoring.basics.terminal import plural, printable, say
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.marts.alerts import Alert
from ciris_scoring.marts.marts import Marts
from ciris_scoring.serve.spreadsheet import json_text

TIMEOUT_SECONDS = 10
"""Seconds without an answer after which a message counts as not sent."""
MOST_LINES = 20
"""Maximum number of lines in the text of a message. The JSON of a message has all alerts and verdicts."""
Verdicts = Mapping[tuple[str, int], tuple[str, str | None]]
"""Verdicts of agents: label of the agent and verdict, by the agent's hash and the days of the window."""
Message = dict[str, Any]
TEST: Message = {
    "title": "CIRIS scores: test",
    "text": "Messages of ciris-scoring arrive here.",
    "message": None,
}
"""Message of ``--notify-test``."""


@dataclass
class News:
    """Alerts that are new or closed since the previous run, and verdicts that changed."""

    new_alerts: list[Alert] = field(default_factory=list)
    closed_alerts: list[Alert] = field(default_factory=list)
    changed_verdicts: list[dict[str, Any]] = field(default_factory=list)


def check_address(address: str, number: int) -> None:
    """Refuse an address to which nothing can be posted. Messages name its number, because it may contain a secret.

    :raises InputError: the address is not an http or https address.
    """
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InputError(
            f"The address of notification {number} is not an http or https address.",
            "Give the address of a webhook, which gets JSON with a member `text`, as Slack and Mattermost read it.",
        )


def send(addresses: Sequence[str], message: Message | None) -> bool:
    """Post a message to all addresses. Warn of each address that fails, and return whether none failed."""
    failed = 0
    for number, address in enumerate(addresses if message is not None else (), 1):
        try:
            request = urllib.request.Request(
                address,
                json_text(message).encode(),
                {"Content-Type": "application/json", "User-Agent": "ciris-scoring"},
            )
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
                pass
        except Exception as error:  # a failing service must not change the result of the run
            failed += 1
            reason = str(error) if isinstance(error, OSError) else type(error).__name__
            say(f"Warning: notification {number} was not sent: {one_line(reason)}")
    return not failed


def read_verdicts(marts: Marts, as_of: datetime) -> Verdicts:
    """Return the published verdicts of an as-of."""
    rows = marts.dicts(
        "select agent_id_hash, window_days, agent_label, verdict from {scored} where as_of = %(as_of)s",
        {"as_of": as_of},
    )
    return {(row["agent_id_hash"], row["window_days"]): (row["agent_label"], row["verdict"]) for row in rows}


def changes(before: Verdicts, now: Verdicts) -> list[dict[str, Any]]:
    """Return the verdicts that the run changed, including the verdicts of new agents."""
    return [
        {"agent_id_hash": key[0], "agent_label": label, "window_days": key[1], "before": was, "now": verdict}
        for key, (label, verdict) in sorted(now.items())
        if (was := before.get(key, (label, None))[1]) != verdict
    ]


def message_of(record: RunRecord, news: News) -> Message | None:
    """Return the message of a run, or None if there is no news."""
    has_failed = record.outcome in ("failed", "refused") or record.exit_code == 1
    counts = [
        plural(len(rows), noun)
        for rows, noun in (
            (news.new_alerts, "new alert"),
            (news.closed_alerts, "closed alert"),
            (news.changed_verdicts, "changed verdict"),
        )
        if rows
    ]
    if not has_failed and not counts:
        return None
    if has_failed:
        counts.insert(0, "run published, with an error" if record.outcome == "published" else f"run {record.outcome}")
    as_of = f" as of {time_text(record.as_of)}" if record.as_of else ""
    title = f"CIRIS scores{as_of}: {', '.join(counts)}"
    lines = [title, *(part for part in (record.message, record.remedy) if part)]
    lines += [f"new, {alert.severity}: {_told(alert)}" for alert in news.new_alerts]
    lines += [f"closed: {_told(alert)}" for alert in news.closed_alerts]
    lines += [
        f"verdict: {row['agent_label']}, {row['window_days']} days: {row['before'] or 'none'} -> {row['now'] or 'none'}"
        for row in news.changed_verdicts
    ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... and {len(lines) - MOST_LINES:,} more"]
    return {
        "title": title,
        "text": "\n".join(_inert(printable(one_line(line))) for line in lines),
        "scoring_run_id": record.run_id,
        "as_of": record.as_of,
        "outcome": record.outcome,
        "message": record.message,
        "remedy": record.remedy,
    } | asdict(news)


def _inert(line: str) -> str:
    """Return a line in which chats find no mention and no link, although agents choose their names: an invisible space
    (U+200B) splits what begins a mention, an HTML tag, or the address of a link."""
    return re.sub(r"(?<=[@<!])|(?<=])(?=\()|(?<=:)(?=//)", "\u200b", line)


def _told(alert: Alert) -> str:
    name = f"{alert.agent_name or 'unnamed'} ({alert.agent_id_hash[:8]})"
    return f"{name}, {alert.window_days} days: {alert.kind}: {alert.message}"
