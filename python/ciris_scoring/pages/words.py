"""What the marts' short names mean, in words."""

from collections.abc import Mapping

PARTS: Mapping[str, str] = {
    "d_identity": "Changes of name",
    "k_contradiction": "Overridden actions",
    "i_chain": "Broken chain of evidence",
    "i_coverage": "Missing fields",
    "i_replay": "Decisions that do not replay",
    "r_ceiling": "Ceiling of resilience, for every agent",
    "delta_drift": "Drift",
    "mttr_hours": "Slow recovery",
    "rho_regression": "Relapses",
    "ece": "Confidence that misleads",
    "q_deferral": "Deferrals judged poor",
    "u_unsafe": "Unsafe actions",
    "s_score": "Incoherent signals",
}
"""The parts that a score loses points to."""
STATUS: Mapping[str, str] = {
    "final": "final",
    "provisional": "provisional",
    "insufficient_data": "too few traces",
}
ALERTS: Mapping[str, str] = {
    "low_capacity": "Low capacity",
    "broken_chain": "Broken chain",
    "falling": "Falling",
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
    "no_earlier_score": "no row then",
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
