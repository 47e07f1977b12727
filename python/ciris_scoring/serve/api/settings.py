"""What a server is told on the command line and by the environment."""

import ipaddress
import os
from dataclasses import dataclass, field

from ciris_scoring.basics.errors import InputError

KEY_VARIABLE = "CIRIS_API_KEY"
SHORTEST_KEY = 16
REQUESTS_PER_MINUTE = 600
"""Default limit per client where the server is reached from elsewhere."""


@dataclass(frozen=True)
class Settings:
    """How the API is served."""

    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = field(default=None, repr=False)
    """Demanded of every client; None for none."""
    requests_per_minute: int = 0
    """Limit per client; 0 for none."""
    origins: tuple[str, ...] = ()
    """Whose pages may read answers in a browser (CORS)."""
    local_names_only: bool = True
    """Answer only requests that name a loopback host, so that no web page reaches the server under a name of its own
    (DNS rebinding)."""
    connections: int = 8
    statement_timeout: float = 15
    """Seconds that a query may take."""
    version_seconds: float = 1
    """For how long a publication is taken for the newest one."""
    cache_bytes: int = 64 * 2**20
    """Bytes of answers that are kept."""


def is_loopback(host: str) -> bool:
    """Whether a server on this address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def settings_of(
    host: str,
    port: int,
    no_auth: bool,
    requests_per_minute: int | None,
    origins: tuple[str, ...],
    cache_mb: int,
) -> Settings:
    """Settle what the command line leaves open; the key is the environment's.

    :raises InputError: the server could be reached from elsewhere without a key, or the key is weak; an origin is none.
    """
    local = is_loopback(host)
    key = os.environ.get(KEY_VARIABLE) or None
    if no_auth:
        key = None
    elif key is None and not local:
        raise InputError(
            f"{host} can be reached from other machines, and no API key is set.",
            f"Set the environment variable {KEY_VARIABLE}, serve on 127.0.0.1, or say --no-auth.",
        )
    if key is not None and (len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable()):
        raise InputError(
            f"The API key in {KEY_VARIABLE} must have at least {SHORTEST_KEY} printable ASCII characters.",
            "Make one, for example: openssl rand -hex 32",
        )
    for origin in origins:
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
            raise InputError(
                f"--origin is {origin!r}, which is no origin.",
                "Write scheme, host and port only: https://example.org",
            )
    if requests_per_minute is None:
        requests_per_minute = 0 if local else REQUESTS_PER_MINUTE
    return Settings(
        host=host,
        port=port,
        key=key,
        requests_per_minute=requests_per_minute,
        origins=origins,
        local_names_only=local and key is None and not no_auth,
        cache_bytes=cache_mb * 2**20,
    )
