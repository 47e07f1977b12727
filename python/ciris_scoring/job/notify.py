"""Notify people of news since the previous run: alerts, verdicts, and runs that failed or were refused.

A run posts at most one message to each address: JSON with a member `text`, as Slack, Mattermost and relays read it. An
address may contain a secret, so it is never shown.
"""

import re
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from ciris_scoring.database.as_of import text as time_text
from ciris_scoring.database.terminal import printable, say
from ciris_scoring.errors import InputError, one_line
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.marts.news import News
from ciris_scoring.show.spreadsheet import json_text

TIMEOUT_SECONDS = 10
"""Seconds without an answer after which a message counts as not sent."""
MOST_LINES = 20
"""Maximum number of lines in the text of a message. The JSON of a message has all alerts and verdicts."""
Message = dict[str, Any]
TEST: Message = {
    "title": "CIRIS scores: test",
    "text": "Messages of ciris-scoring arrive here.",
    "message": None,
}
"""Message of ``--notify-test``."""


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


def message_of(record: RunRecord, news: News) -> Message | None:
    """Return the message of a run, or None if there is no news."""
    has_failed = record.outcome in ("failed", "refused") or record.exit_code == 1
    counts = news.counts()
    if not has_failed and not counts:
        return None
    if has_failed:
        counts.insert(0, "run published, with an error" if record.outcome == "published" else f"run {record.outcome}")
    as_of = f" as of {time_text(record.as_of)}" if record.as_of else ""
    title = f"CIRIS scores{as_of}: {', '.join(counts)}"
    lines = [title, *(part for part in (record.message, record.remedy) if part)]
    lines += news.lines()
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
