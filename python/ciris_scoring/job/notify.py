"""Post messages to webhooks: JSON with a member `text`, as Slack, Mattermost and relays read it.

An address may contain a secret, so it is never shown.
"""

import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from ciris_scoring.database.terminal import say
from ciris_scoring.errors import InputError, one_line

TIMEOUT_SECONDS = 10
"""Seconds without an answer after which a message counts as not sent."""


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


def send(addresses: Sequence[str], message: str) -> bool:
    """Post a message, the text of a JSON object, to all addresses. Warn of each address that fails. Return whether none
    failed."""
    failed = 0
    for number, address in enumerate(addresses, 1):
        try:
            request = urllib.request.Request(
                address,
                message.encode(),
                {"Content-Type": "application/json", "User-Agent": "ciris-scoring"},
            )
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
                pass
        except Exception as error:  # a failing service must not change the result of the run
            failed += 1
            reason = str(error) if isinstance(error, OSError) else type(error).__name__
            say(f"Warning: notification {number} was not sent: {one_line(reason)}")
    return not failed
