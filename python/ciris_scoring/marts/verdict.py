"""Verdict on a permission, the permissions by name, and the alerts and red flags that a verdict depends on
(certainty.md §4b, deciding.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from psycopg import sql

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database.connection import has_right, table_exists
from ciris_scoring.database.terminal import inside_sentence, plural
from ciris_scoring.errors import DatabaseError, NoRight, shown
from ciris_scoring.marts.marts import Marts, grouped
from ciris_scoring.marts.reference import windows
from ciris_scoring.marts.score import Raised, Score, at

VerdictName = Literal["suspend", "withhold", "review", "keep", "wait", "grant"]
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
"""Verdicts in descending order of urgency."""
HIGH_FRAGILITY = "high_fragility"
"""Category beside which nothing is granted."""
AS_OFS = 400
"""Number of as-ofs that are searched for the beginning of an alert or a red flag."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a permission that requires a score of at least the threshold."""

    verdict: VerdictName
    reason: str
    """Reason for the verdict, as text."""
    threshold: float
    probability: float | None
    """Probability that the steady score reaches the threshold, or None without a steady score."""
    look_for: str
    """Reasons for a review or a suspension, as text; empty if there are none."""


def _probability(score: Score, threshold: float) -> float | None:
    """Return the probability that the steady score reaches a threshold (certainty.md §4b)."""
    steady, log_sd = score.capacity_score_steady, score.capacity_score_steady_log_sd
    if score.probability_at_threshold is not None and threshold == score.verdict_threshold:
        return score.probability_at_threshold
    if steady is None or log_sd is None or score.r_ceiling_loss is None:
        return None
    # numpy is imported only if another threshold is asked for, because it takes a tenth of a second.
    from ciris_scoring.long_run import probability_reached  # noqa: PLC0415

    return float(probability_reached(threshold, steady, log_sd, score.r_ceiling_loss))


def _missing_evidence(score: Score, threshold: float) -> str:
    """Return a clause that says how much more evidence (traces or judged deferrals) a grant needs if the steady score
    stays as it is. The standard error of the logarithm of the loss (certainty.md §4b) falls with the square root of the
    evidence.
    """
    steady, fixed_loss = score.capacity_score_steady, score.r_ceiling_loss
    if not steady or steady <= threshold or not score.grant_score or fixed_loss is None or not threshold:
        return "a grant needs a higher score"
    from ciris_scoring.long_run import log_loss  # noqa: PLC0415

    at, at_score, at_grant = (log_loss(one, fixed_loss) for one in (threshold, steady, score.grant_score))
    times = float(((at_grant - at_score) / (at - at_score)) ** 2)
    if score.interval_driver == "q_deferral" and score.n_steady_deferrals:
        more = math.ceil((times - 1) * score.n_steady_deferrals)
        return f"a grant needs about {plural(more, 'judged deferral')} more"
    return f"a grant needs about {times:.1f} times as many traces"


SIMULATED = "a probability by simulation (docs/measuring.md, Probabilities)"
"""Meaning of "98 % sure"."""


def percent_sure(probability: float) -> int:
    """Return the probability in percent, limited to 1 to 99."""
    return min(max(round(100 * probability), 1), 99)


def sure(probability: float) -> str:
    """Return the probability in words, for example "92 % sure"."""
    percent = percent_sure(probability)
    bound = {1: "at most ", 99: "at least "}.get(percent, "")
    return f"{bound}{percent} % sure"


def verdict(score: Score, threshold: float | None = None) -> Verdict:
    """Return the verdict on a permission that requires a steady score of at least the threshold: the first line of
    the table in deciding.md that is true, as in fct_verdicts.

    :param threshold: None for the threshold of the published verdict.
    """
    threshold = score.verdict_threshold if threshold is None else threshold
    capacity, fragile_high = score.capacity_score, score.fragile_score_high
    is_granted = score.grant_score is not None and score.grant_score >= threshold
    is_reached = capacity is not None and capacity >= threshold
    is_certainly_fragile = fragile_high is not None and fragile_high < threshold
    # The window of a silent agent has fewer traces each day. That must not make a verdict better.
    is_fading = any(one.name == "silent" for one in score.raised) and (capacity is None or fragile_high is not None)
    is_suspended = score.is_silent or is_fading or any(one.suspends for one in score.raised)
    found: VerdictName
    if score.withhold_score is not None and score.withhold_score < threshold:
        found = "withhold"
    elif is_certainly_fragile or is_suspended:
        found = "suspend"
    elif score.score_status in ("provisional", "insufficient_data") or score.grant_score is None:
        found = "wait"
    elif score.fragile_window_days is not None or any(one.reviews for one in score.raised):
        found = "review"
    elif is_granted and is_reached:
        found = "grant"
    else:
        found = "keep"
    to_look, number = _reasons_to_look(score, threshold), _number(score, threshold)
    reasons = [*to_look, number] if found in ("suspend", "review") else [number, *to_look]
    if found == "wait" and score.final_from is not None:
        reasons.append(f"final from {score.final_from:%Y-%m-%d}")
    if found == "keep" and not is_granted:
        reasons.append(_missing_evidence(score, threshold))
    return Verdict(
        found, "; ".join(filter(None, reasons)), threshold, _probability(score, threshold), "; ".join(to_look)
    )


def _reasons_to_look(score: Score, threshold: float) -> list[str]:
    """Return the reasons for a suspension or a review, those for a suspension first."""
    reasons = sorted((one for one in score.raised if one.reviews), key=lambda one: not one.suspends)
    if score.fragile_window_days is not None:
        reasons = [one for one in reasons if one.name != "low_capacity"]
    since = score.newest_trace_at
    said = [f"no trace since {at(since)}" if one.name == "silent" and since else one.words for one in reasons]
    fragile_high, days = score.fragile_score_high, score.fragile_window_days
    if score.is_silent:
        said = [inside_sentence(score.silence).rstrip("."), *(one.words for one in reasons if one.name != "silent")]
    if days is not None and fragile_high is not None:
        where = "" if days == score.window_days else f" in {plural(days, 'day')}"
        is_certain = fragile_high < threshold
        said_of_interval = "ends below" if is_certain else "reaches"
        explained = "chance does not explain it" if is_certain else "it may be chance"
        fragile = f"category High Fragility{where}: the 95 % interval {said_of_interval} {threshold:g}, so {explained}"
        said.insert(0 if is_certain else len(said), fragile)
    return said


def _number(score: Score, threshold: float) -> str:
    """Return the clause about the steady score. It joins the two scores if only the steady score is enough."""
    probability, steady, capacity = _probability(score, threshold), score.capacity_score_steady, score.capacity_score
    if score.is_silent:
        return ""
    if score.score_status == "insufficient_data":
        return "too few traces for a score"
    if probability is None or steady is None or score.grant_score is None:
        return "no steady score yet: a rescore adds it"
    is_only_steady = score.grant_score >= threshold and capacity is not None and capacity < threshold
    if is_only_steady and score.score_status == "final" and score.fragile_window_days is None:
        when = "this week" if score.window_days == 7 else f"in the last {plural(score.window_days, 'day')}"
        enough = f"the steady score {decimals.score(steady)} would be enough"
        return f"{when} {score.category_label}{_because(score)}; {enough}"
    said = f"steady score {decimals.score(steady)}, {sure(probability)} to reach {threshold:g}"
    return f"{said}, but provisional: too little history" if score.score_status == "provisional" else said


SUBJECTLESS = ("Signs ", "Changed ", "Drifts ")
"""Beginnings of causes (`marts.causes`) that do not name the agent."""


def _because(score: Score) -> str:
    """Return the main cause of a score as a subordinate clause, for example ", because 1 of 2 deferrals was not
    needed"."""
    cause = score.cause.rstrip(".")
    if not cause:
        return ""
    if cause.startswith("Stuck "):
        cause = f"It is {inside_sentence(cause)}"
    elif cause.startswith(SUBJECTLESS):
        cause = f"It {inside_sentence(cause)}"
    return f", because {inside_sentence(cause)}"


def raised(
    marts: Marts,
    window_days: int,
    as_of: datetime,
    *,
    first: datetime | None = None,
    agents: Sequence[str] | None = None,
) -> Mapping[str, list[Raised]]:
    """Read the alerts and red flags of agents, in the order: critical alerts, red flags, warnings.

    :param first: read also the alerts and red flags that ended at or after this as-of. With None, read only what is
    raised at `as_of`.
    :param agents: agent hashes, or None for all agents.
    """
    found = marts.rows(
        Raised,
        """
        with as_ofs as (
            select as_of, row_number() over (order by as_of) as number
            from {fct_fleet_capacity}
            where window_days = %(window_days)s and as_of <= %(as_of)s
            order by as_of desc
            limit %(as_ofs)s
        ),

        raised as (
            select agent_id_hash, kind as name, severity, as_of
            from {fct_capacity_alerts}
            where window_days = %(window_days)s and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))

            union all

            select distinct agent_id_hash, red_flag, 'red_flag', as_of
            from {fct_red_flags}
            where window_days = %(window_days)s and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))
        ),

        numbered as (
            select
                raised.*,
                as_ofs.number - row_number() over (
                    partition by raised.agent_id_hash, raised.name, raised.severity = 'red_flag' order by as_ofs.number
                ) as island
            from raised
            join as_ofs on raised.as_of = as_ofs.as_of
        ),

        spans as (
            select
                agent_id_hash, name, (array_agg(severity order by as_of desc))[1] as severity,
                min(as_of) as first_as_of, max(as_of) as until
            from numbered
            group by agent_id_hash, name, severity = 'red_flag', island
        )

        select
            agent_id_hash, name, severity, until,
            nullif(first_as_of, (select min(as_of) from as_ofs)) as since
        from spans
        where until >= coalesce(%(first)s::timestamptz, %(as_of)s)
        order by agent_id_hash collate "C", severity collate "C", name collate "C", until
        """,
        as_of=as_of,
        window_days=window_days,
        first=first,
        agents=None if agents is None else list(agents),
        as_ofs=AS_OFS,
    )
    return grouped(found)


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission, which an agent gets if its steady score in a window is likely to reach a threshold."""

    name: str | None
    """Name in the seed, or None if no permission of the seed has this threshold and window."""
    threshold: float | None
    """Steady score that the permission requires, or None for the threshold of the published verdicts."""
    window_days: int


def permission_words(name: str | None, threshold: float, window_days: int) -> str:
    """Return a permission in words, for example "Standard operation (0.6 in 7 days)", or "0.6 in 7 days"."""
    said = f"{threshold:g} in {plural(window_days, 'day')}"
    return f"{name} ({said})" if name else said


def permissions(marts: Marts) -> list[Permission]:
    """Read the permissions of the seed in the order of window, threshold and name; none if there is no seed.

    :raises DatabaseError: a row is wrong, or the role may not read the seed.
    """
    place = marts.relations.permissions
    if place is None or not table_exists(marts.connection, *place):
        return []
    if not has_right(marts.connection, place):
        raise NoRight(
            f"The role has no right to read {place}, which names the permissions.",
            f"Let its owner grant it: grant usage on schema {place.schema} and grant select on {place}.",
        )
    query = sql.SQL("select name::text, threshold::text, window_days::text from {}").format(sql.Identifier(*place))
    published = [window.window_days for window in windows(marts)]
    found = [_permission(row, published) for row in marts.connection.execute(query)]
    return sorted(found, key=lambda one: (one.window_days, one.threshold, one.name))


def _permission(row: Sequence[str | None], published: Sequence[int]) -> Permission:
    """Return the permission of a row of the seed. `published`: published windows in days."""
    name, threshold, window_days = row
    try:
        found = Permission(name, float(threshold or ""), int(window_days or ""))
    except ValueError:
        found = Permission(None, None, 0)
    if not name or found.threshold is None or not 0 <= found.threshold <= 1 or found.window_days not in published:
        raise DatabaseError(
            f"permissions.csv has the row {', '.join(map(shown, row))}, which must have a name, a threshold in [0, 1] "
            f"and a published window; there are {' and '.join(map(str, published))}.",
            "Correct permissions.csv and run `dbt seed`.",
        )
    return found


def published_threshold(marts: Marts) -> float | None:
    """Return the threshold of the newest published verdicts, or None if there are none."""
    found = marts.dicts("select verdict_threshold from {fct_verdicts} order by as_of desc limit 1", {})
    return found[0]["verdict_threshold"] if found else None


def threshold_remarks(marts: Marts, threshold: float | None) -> list[str]:
    """Return a warning if the threshold of the published or next verdicts is not that of the first permission."""
    found = [] if marts.missing() else permissions(marts)
    if not found or threshold in (None, found[0].threshold):
        return []
    first = found[0]
    return [
        f"Warning: The verdicts of fct_verdicts have the threshold {threshold:g} (ciris_verdict_threshold), but the "
        f"first permission, {permission_words(first.name, first.threshold or 0, first.window_days)}, has another. Set "
        f"the variable to {first.threshold:g}, or change permissions.csv."
    ]


def state(marts: Marts) -> str:
    """Return a text that changes with the seed."""
    try:
        return f" {permissions(marts)}"
    except DatabaseError as error:
        return f" {error.message}"
