"""Notify people of news since the previous run: alerts, verdicts, and runs that failed or were refused.

A run sends at most one message to each channel. An http or https address gets the message as JSON. Any other address is
an address of the library Apprise (extra `notify`). An address may contain a secret, so only its scheme is ever shown.
"""

import re
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
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
"""Seconds within which a channel must have accepted a message, from the start of the request to its end."""
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


@dataclass(frozen=True)
class Channel:
    """A service or address to which messages are sent."""

    name: str
    send: Callable[[Message], None]
    """Function that sends a message. It raises an exception if the message was not delivered."""


def channel(address: str, number: int) -> Channel:
    """Return the channel of an address. Warnings show its number, because the address may contain a secret."""
    scheme, _, rest = address.partition("://")
    name = f"notification {number} ({scheme if rest else 'without a scheme'})"
    if scheme in ("http", "https"):
        try:
            has_host = bool(urlsplit(address).hostname and urlsplit(address).port != 0)
        except ValueError:
            has_host = False
        if has_host:
            return Channel(name, lambda message: _post(address, message))
    elif rest:
        from apprise import Apprise

        service = Apprise()
        if service.add(address) and len(service) == 1:
            return Channel(name, lambda message: _by_apprise(service, message))
    raise InputError(
        f"The address of {name} is not that of a known service.",
        "Give an https address, which gets JSON, or an Apprise URL, such as slack://, mailto:// or pagerduty://",
    )


def _post(address: str, message: Message) -> None:
    request = urllib.request.Request(
        address,
        json_text(message).encode(),
        {"Content-Type": "application/json", "User-Agent": "ciris-scoring"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
        pass


def _by_apprise(service: Any, message: Message) -> None:
    kind = "failure" if message["message"] else "info"
    body = message["text"].partition("\n")[2] or message["text"]
    # "text" lets Apprise escape the body for services that take HTML or Markdown.
    if not service.notify(title=message["title"], body=body, notify_type=kind, body_format="text"):
        raise OSError("the service did not accept it")


def _within_deadline(channel: Channel, message: Message) -> None:
    """Send a message, and raise an exception if it is not delivered in time. A receiver that answers one byte at a time
    never exceeds the timeout of a socket."""
    ended: list[Exception | None] = []

    def work() -> None:
        try:
            channel.send(message)
            ended.append(None)
        except Exception as error:
            ended.append(error)

    worker = threading.Thread(target=work, daemon=True)  # a daemon does not delay the end of the process
    worker.start()
    worker.join(TIMEOUT_SECONDS)
    error = ended[0] if ended else TimeoutError(f"no answer within {TIMEOUT_SECONDS} s")
    if error is not None:
        raise error


def send(channels: Sequence[Channel], message: Message | None) -> bool:
    """Send a message to all channels. Warn of each channel that fails, and return whether none failed."""
    failed = 0
    for one in channels if message is not None else ():
        try:
            _within_deadline(one, message or {})
        except Exception as error:  # a failing service must not change the result of the run
            failed += 1
            reason = str(error) if isinstance(error, OSError) else type(error).__name__
            say(f"Warning: {one.name} was not sent: {one_line(reason)}")
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
