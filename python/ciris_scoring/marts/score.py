"""The score of an agent at an as-of in a window, with its certainty and the alerts and red flags of the agent."""

import calendar
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database.terminal import inside_sentence
from ciris_scoring.kinds import KINDS
from ciris_scoring.names import FACTORS

NO_TRACES = "no_traces"
"""Status of a silent agent: it had a score before and has sent no trace in the window (scoring.md §1)."""


def at(moment: datetime) -> str:
    """Format a time (UTC) to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def day(moment: datetime) -> str:
    """Format the day of a time (UTC), for example "22 November"."""
    utc = moment.astimezone(UTC)
    return f"{utc.day} {calendar.month_name[utc.month]}"


def title(name: str) -> str:
    """Return the title of an alert or a red flag, or the name itself if this version does not know it."""
    return KINDS[name].title if name in KINDS else name


@dataclass(frozen=True, slots=True)
class Raised:
    """An alert or a red flag that an agent had at consecutive as-ofs."""

    agent_id_hash: str
    name: str
    """Kind of the alert, or name of the red flag."""
    severity: Literal["critical", "warning", "red_flag"]
    """Severity at the last as-of."""
    since: datetime | None
    """First of the consecutive as-ofs with the alert or red flag. None if the alert or red flag began at or before the
    oldest as-of that was searched."""
    until: datetime
    """Last of the consecutive as-ofs with the alert or red flag."""

    @property
    def is_red_flag(self) -> bool:
        """Whether this is a red flag of selective reporting."""
        return self.severity == "red_flag"

    @property
    def reviews(self) -> bool:
        """Whether a person must review the agent before the score decides."""
        kind = KINDS.get(self.name)
        return self.severity in ("critical", "red_flag") or (kind is not None and kind.review == "always")

    @property
    def suspends(self) -> bool:
        """Whether a permission is suspended until somebody has looked at the agent."""
        kind = KINDS.get(self.name)
        return self.severity == "critical" and kind is not None and kind.suspends

    @property
    def words(self) -> str:
        """Title and first date, for example "new identity since 2026-03-03"."""
        return title(self.name) + ("" if self.since is None else f" since {self.since:%Y-%m-%d}")


@dataclass(frozen=True, slots=True)
class Score:
    """A row of fct_capacity_scores with columns of other marts, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    agent_label: str
    as_of: datetime
    window_days: int
    window_start: datetime
    n_traces: int
    capacity_score: float | None
    capacity_score_low: float | None
    capacity_score_high: float | None
    capacity_score_geometric: float | None
    fragility_index: float | None
    category: str | None
    category_label: str | None
    guidance: str | None
    """Guidance of the category."""
    category_low: str | None
    category_high: str | None
    category_certainty: str | None
    interval_driver: str | None
    score_status: str
    confidence: str
    weakest_factor: str | None
    unmeasured_components: list[str] | None
    c_score: float | None
    c_score_steady: float | None
    i_int_score: float | None
    i_int_score_steady: float | None
    r_score: float | None
    r_score_steady: float | None
    i_inc_score: float | None
    i_inc_score_steady: float | None
    s_score: float | None
    s_score_steady: float | None
    capacity_score_steady: float | None
    capacity_score_steady_low: float | None
    capacity_score_steady_high: float | None
    capacity_score_steady_log_sd: float | None
    steady_missing_because: str | None
    n_steady_deferrals: int | None
    r_ceiling_loss: float | None
    grant_score: float | None
    withhold_score: float | None
    probability_at_threshold: float | None
    verdict_threshold: float
    """Threshold that the published verdict used."""
    fragile_window_days: int | None
    fragile_score_high: float | None
    last_traced_at: datetime | None
    last_scored_as_of: datetime | None
    last_capacity_score: float | None
    last_category_label: str | None
    """Label of the category of last_capacity_score."""
    last_verdict: str | None
    parameter_set_id: str
    scored_at: datetime
    missing_traces: int | None
    """Number of further traces that the agent needs to reach min_traces. Null if the agent has a score."""
    final_from: datetime | None
    """First day (UTC) on which the agent's score is final. Null if the score is not provisional."""
    compared_as_of: datetime | None
    """The as-of one window before the as-of of the score."""
    score_before: float | None
    change: float | None
    """Score minus the score one window earlier. Null if the two scores are not comparable."""
    not_comparable_because: str | None
    newest_trace_at: datetime | None
    """Time of the agent's last trace. Null if it is at or after the as-of."""
    raised: Sequence[Raised] = ()
    """Alerts and red flags of the agent, critical alerts first."""
    cause: str = ""
    """Main cause of the score, in one sentence."""
    shared_cause: str = ""
    """Main cause of the score in words that are equal for agents with the same cause; empty if nothing lowers it."""
    chain_cause: str | None = None
    """Description of the loss component i_chain, which names its largest cause. None if the chain is valid."""

    @property
    def factors(self) -> dict[str, float | None]:
        """Values of the five factors, in the order of `FACTORS`."""
        return {name: getattr(self, column) for name, column in FACTORS.items()}

    @property
    def is_silent(self) -> bool:
        """Whether the agent had a score before and has sent no trace in the window."""
        return self.score_status == NO_TRACES

    @property
    def silence(self) -> str:
        """Sentences about the last trace and the newest score of a silent agent, empty for another agent."""
        if self.last_traced_at is None or self.last_scored_as_of is None or self.last_capacity_score is None:
            return ""
        newest = (decimals.score(self.last_capacity_score), self.last_category_label, self.last_verdict)
        return (
            f"No trace since {at(self.last_traced_at)}. The newest score is of {self.last_scored_as_of:%Y-%m-%d}: "
            f"{', '.join(filter(None, newest))}."
        )

    @property
    def words(self) -> str:
        """Score, category and guidance, for example "0.072, High Fragility: immediate intervention required"."""
        if self.is_silent:
            return "no trace in the window"
        if self.capacity_score is None:
            return f"too few traces, {self.missing_traces or 0} missing"
        number = decimals.score(self.capacity_score)
        if not self.guidance:
            return number
        return f"{number}, {self.category_label}: {inside_sentence(self.guidance)}"

    @property
    def steady_difference(self) -> dict[str, float] | None:
        """Points of each factor from the capacity score to the steady score (certainty.md §4b), which they sum to. None
        if one of the two scores or a factor is missing."""
        capacity, steady = self.capacity_score, self.capacity_score_steady
        factors = {name: (getattr(self, column), getattr(self, f"{column}_steady")) for name, column in FACTORS.items()}
        if capacity is None or steady is None or any(None in values for values in factors.values()):
            return None
        difference = steady - capacity
        if capacity == 0 or steady == 0:
            changed = [name for name, (before, now) in factors.items() if (before == 0) != (now == 0)]
            return {name: difference / len(changed) if name in changed else 0.0 for name in factors}
        change = math.log1p(difference / capacity)
        mean = difference / change if change else capacity
        points = {name: mean * math.log(now / before) for name, (before, now) in factors.items() if name != "I_int"}
        # I_int gets the rest, because its floor may limit it in one of the two scores.
        return {name: points.get(name, difference - sum(points.values())) for name in factors}


def bridge(difference: Mapping[str, float] | None) -> list[tuple[str, float]]:
    """Return the factors with 0.001 points or more in `Score.steady_difference`, the largest first."""
    found = [(factor, points) for factor, points in (difference or {}).items() if abs(points) >= 0.001]
    return sorted(found, key=lambda one: -abs(one[1]))
