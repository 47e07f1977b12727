"""What the marts' short names mean, in words."""

from collections.abc import Mapping

from ciris_scoring.basics import decimals
from ciris_scoring.basics.terminal import plural

NO_NUMBER = "–"
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
SIGNS: Mapping[str, str] = {
    "contradicted_null": "Verdict missing though recorded",
    "shared_key": "Key of another agent",
    "unreported": "Verdict not reported",
    "deferrals_left_open": "Deferrals left open",
    "deferrals_escalated": "Deferrals escalated",
    "new_identity": "New identity",
    "phase_churn": "A failure mode per episode",
    "volume_jump": "Many trivial traces",
    "renumbered": "Numbered anew",
    "key_turnover": "Many new keys",
    "identical_values": "Identical values",
}
RUNS: Mapping[str, str] = {
    "published": "published",
    "built": "a part built",
    "refused": "refused",
    "failed": "failed",
    "interrupted": "interrupted",
    "unfinished": "at work, or died",
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


ISSUES: Mapping[str, str] = {
    "out_of_range_": "outside of its range, so set aside:",
    "blank_": "blank, so read as missing:",
    "unreadable_": "JSON that cannot be read:",
    "oversized_id": "an id of more than 512 bytes",
    "duplicate_trace": "sent again, counted once",
    "future_trace": "dated after the run, so left out",
    "late_trace": "came when its scores were final",
    "late_key": "key changed in the registry when its scores were final",
    "unattributed_deferral": "deferral of no known agent",
    "unknown_status": "deferral of an unknown status",
    "ingestion_received": "received by the ingestion",
    "ingestion_accepted": "accepted by the ingestion",
    "ingestion_rejected": "rejected by the ingestion",
}
"""What fct_data_quality counts, by the beginning of the issue; after it comes the column."""


def issue(name: str) -> str:
    """An issue of fct_data_quality in words."""
    for beginning, said in ISSUES.items():
        if name.startswith(beginning):
            return f"{said} {name.removeprefix(beginning)}".rstrip()
    return name


def shown(value: float | None) -> str:
    """A score, cut to three decimals."""
    return NO_NUMBER if value is None else decimals.score(value)


def interval(low: float | None, high: float | None) -> str:
    """An interval in brackets; nothing without one."""
    return "" if low is None or high is None else f"[{decimals.limit(low)}, {decimals.limit(high)}]"


def ago(seconds: float) -> str:
    """How long ago something was, in the largest unit that fits."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length or (unit == "minute" and seconds >= length):
            return f"{plural(int(seconds // length), unit)} ago"
    return "just now"
