"""Settings of the server, from the command line and the environment."""

import ipaddress
import os
from dataclasses import dataclass, field

from ciris_scoring.errors import InputError

KEY_VARIABLE = "CIRIS_API_KEY"
SHORTEST_KEY = 16


@dataclass(frozen=True)
class Settings:
    """Settings of the server."""

    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = field(default=None, repr=False)
    """API key that clients must send, or None if no key is required."""
    local_names_only: bool = True
    """Whether to answer only requests whose Host header is a loopback name. This protects against DNS rebinding: a web
    page whose host name leads to this machine could otherwise read the server.
    """
    version_seconds: float = 1
    """Seconds after which the server checks for a new publication."""
    cache_bytes: int = 64 * 2**20
    """Size of the cache of answers in bytes."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def settings_of(
    host: str,
    port: int,
    no_auth: bool,
) -> Settings:
    """Return the settings for options of the command line. The key comes from the environment.

    :raises InputError: a key is required and missing, or the key is weak.
    """
    local = is_loopback(host)
    key = os.environ.get(KEY_VARIABLE) or None
    if no_auth:
        key = None
    elif key is None and not local:
        raise InputError(
            f"{host} can be reached from other machines, and no API key is set.",
            f"Set the environment variable {KEY_VARIABLE}, serve on 127.0.0.1, or use --no-auth.",
        )
    if key is not None and (len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable()):
        raise InputError(
            f"The API key in {KEY_VARIABLE} must have at least {SHORTEST_KEY} printable ASCII characters.",
            "Make one, for example: openssl rand -hex 32",
        )
    return Settings(
        host=host,
        port=port,
        key=key,
        local_names_only=local and key is None and not no_auth,
    )
