"""What the marts' short names mean, in words."""

from collections.abc import Mapping

STATUS: Mapping[str, str] = {
    "final": "final",
    "provisional": "provisional",
    "insufficient_data": "too few traces",
}
ALERTS: Mapping[str, str] = {
    "low_capacity": "Low capacity",
    "broken_chain": "Broken chain",
    "falling": "Falling",
    "episode": "Episode",
    "silent": "Silent",
}
EVENTS: Mapping[str, str] = {
    "renamed": "renamed",
    "key_not_registered": "key unknown, revoked or expired",
    "chain_broken": "chain broken",
    "parameters_changed": "parameters changed",
}
OUTCOMES: Mapping[str, str] = {
    "refused": "was refused",
    "failed": "failed",
    "interrupted": "was interrupted",
}
"""What became of a run that published nothing."""
NOT_COMPARABLE: Mapping[str, str] = {
    "no_earlier_score": "not scored then",
    "other_parameter_set": "other parameters then",
    "no_score": "too few traces",
}


def plural(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def ago(seconds: float) -> str:
    """How long ago something was, in the largest unit that fits."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length or (unit == "minute" and seconds >= length):
            return f"{plural(int(seconds // length), unit)} ago"
    return "just now"
