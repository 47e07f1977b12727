"""Texts for short names in the marts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database.terminal import plural
from ciris_scoring.kinds.components import LOSS_WORDS
from ciris_scoring.marts.score import title
from ciris_scoring.marts.verdict import HIGH_FRAGILITY

NO_NUMBER = "–"
STATUS: Mapping[str, str] = {
    "final": "final",
    "provisional": "provisional",
    "insufficient_data": "too few traces",
    "no_traces": "no traces",
}
VERDICTS: Mapping[str, tuple[str, str]] = {
    "suspend": (
        "stop what it may do until somebody has looked",
        "The category is High Fragility and chance does not explain it, a signing key is not trusted, or the agent has "
        "sent no trace. A suspension is a pause: when its reason ends, the permission is what it was.",
    ),
    "withhold": ("take away, or do not give", "The steady score is too unlikely to reach the threshold."),
    "review": (
        "look today; keep what it has, nothing new",
        "An alert or a red flag is raised, or the category is High Fragility, perhaps by chance. Look into it, and do "
        "not grant anything new as long as it lasts. Who looks into it decides whether the agent keeps a permission "
        "that it has.",
    ),
    "keep": (
        "leave as it is",
        "The steady score may or may not reach the threshold, or the capacity score is below it. Look closer.",
    ),
    "wait": ("give nothing yet", "Too little history or too few traces to say anything."),
    "grant": ("give, or keep", "The capacity score and, likely enough, the steady score reach the threshold."),
}
"""Decision about the permission, and explanation, by verdict."""
CONFIDENCE: Mapping[str, str] = {
    "insufficient": "hardly any traces",
    "low": "few traces",
    "medium": "a fair number of traces",
    "high": "enough traces",
}
EVENTS: Mapping[str, str] = {
    "renamed": "renamed",
    "key_not_registered": "key unknown, revoked or expired",
    "chain_broken": "chain broken",
    "parameters_changed": "parameters changed",
}
RUNS: Mapping[str, str] = {"built": "built in part", "unfinished": "in progress, or killed"}
"""Texts for outcomes of runs. The pages show other outcomes by their names."""
OUTCOMES: Mapping[str, str] = {"refused": "was refused", "failed": "failed"}
"""Text for the outcome of a run that did not publish, as the predicate of a sentence about the run."""
NOT_COMPARABLE: Mapping[str, str] = {
    "no_earlier_score": "not scored then",
    "other_parameter_set": "other parameters then",
    "no_score": "too few traces, or none",
}


ISSUES: Mapping[str, str] = {
    "out_of_range_": "out of range, so not used:",
    "blank_": "blank, so treated as missing:",
    "unreadable_": "JSON that cannot be read:",
    "no_action_result": "trace without an outcome yet",
    "several_action_results": "trace with several outcomes, of which the last is used",
    "trace_id_of_two_agents": "trace whose id another agent also uses",
    "oversized_id": "id of more than 512 bytes",
    "duplicate_trace": "trace sent again, counted once",
    "mock_trace": "trace of a mock model, not scored",
    "test_trace": "trace of a test, not scored",
    "production_trace": "trace of production, not scored",
    "future_trace": "trace dated after the as-of, not used yet",
    "late_trace": "trace that arrived after its scores were final",
    "late_outcome": "trace that got an outcome or another event after its scores were final",
    "unattributed_deferral": "deferral of an unknown agent",
    "unknown_status": "deferral with an unknown status",
    "ingestion_received": "traces received by the ingestion",
    "ingestion_accepted": "traces accepted by the ingestion",
    "ingestion_rejected": "traces rejected by the ingestion",
}
"""Text for each issue of fct_data_quality, by the beginning of the issue's name. The rest of the name is a column."""


def issue(name: str) -> str:
    """Return the text for an issue of fct_data_quality."""
    for beginning, said in ISSUES.items():
        if name.startswith(beginning):
            return f"{said} {name.removeprefix(beginning)}".rstrip()
    return name


def raised(name: str) -> str:
    """Return the title of an alert or a red flag with a capital letter."""
    said = title(name)
    return said[:1].upper() + said[1:]


def since(moment: datetime | None, as_of: datetime) -> str:
    """Return words for the age of an alert: "ongoing", "new", or "since" and its first day.

    :param moment: first as-of of the alert, or None if it is unknown.
    """
    if moment is None:
        return "ongoing"
    return "new" if moment == as_of else f"since {moment:%Y-%m-%d}"


def shown_cause(score: Mapping[str, Any]) -> str:
    """Return what to show beside a verdict: the reasons for a review or a suspension, or the main cause of the score.
    Both, if High Fragility in the window of the score is a reason."""
    cause: str = score["cause"]
    if score["verdict"] not in ("review", "suspend"):
        return cause
    reasons = f"{score['look_for'][:1].upper()}{score['look_for'][1:]}."
    return f"{cause} {reasons}" if score["category"] == HIGH_FRAGILITY else reasons


def named_component(score: Mapping[str, Any], loss_component: str) -> str:
    """Return the description of a loss component of a score."""
    words: str | None = score["chain_cause"] if loss_component == "i_chain" else None
    return words or LOSS_WORDS[loss_component]


def shown(value: float | None) -> str:
    """Format a score, truncated to three decimals."""
    return NO_NUMBER if value is None else decimals.score(value)


def interval(low: float | None, high: float | None) -> str:
    """Format an interval in brackets, or return an empty text if there is none."""
    return "" if low is None or high is None else f"[{', '.join(decimals.bounds(low, high))}]"


def lasting(seconds: float) -> str:
    """Format a duration in the largest suitable unit, or return an empty text if it is less than a minute."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length or (unit == "minute" and seconds >= length):
            return plural(int(seconds // length), unit)
    return ""
