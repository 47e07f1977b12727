"""Verdict on a permission, and the alerts and red flags that it depends on (certainty.md §4b)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ciris_scoring.basics import decimals
from ciris_scoring.basics.kinds import ALERTS, FLAGS
from ciris_scoring.basics.terminal import plural
from ciris_scoring.marts.marts import Marts, grouped
from ciris_scoring.marts.score import Raised, Score

VerdictName = Literal["review", "withhold", "keep", "wait", "grant"]
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
"""Verdicts in descending order of urgency."""
if TYPE_CHECKING:
    # Names that the API accepts: kinds of alerts, names of red flags, and names of alerts or red flags.
    AlertKind: TypeAlias = str
    RedFlagName: TypeAlias = str
    RaisedName: TypeAlias = str
else:
    AlertKind, RedFlagName = Literal[tuple(ALERTS)], Literal[tuple(FLAGS)]
    RaisedName = Literal[AlertKind, RedFlagName]
HIGH_FRAGILITY = "high_fragility"
"""Category of a window's score that is never granted a permission without a review."""
AS_OFS = 400
"""Number of as-ofs that are searched for the beginning of an alert or a red flag."""
AS_OF_MEANT = """
        alert_as_ofs as (
            select max(as_of) as newest
            from {fct_capacity_alerts}
        ),

        meant as (
            select
                case
                    when %(as_of)s < (select max(published.as_of) from {fct_fleet_capacity} as published)
                        then %(as_of)s::timestamptz
                    else greatest(%(as_of)s, newest)
                end as as_of
            from alert_as_ofs
        )
"""
"""CTE `meant` with the as-of whose alerts to read: the given as-of. If this is the newest as-of with scores, it is
replaced by the newest as-of with alerts, because a later run that scored no agent can raise alerts too."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a permission that requires a score of at least the threshold."""

    verdict: VerdictName
    reason: str
    """Reason for the verdict, as text."""
    threshold: float
    probability: float | None
    """Probability that the steady score reaches the threshold, or None without a steady score."""


def _probability(score: Score, threshold: float) -> float | None:
    """Return the probability that the steady score reaches a threshold (certainty.md §4b)."""
    steady, log_sd = score.capacity_score_steady, score.capacity_score_steady_log_sd
    if score.probability_at_threshold is not None and threshold == score.verdict_threshold:
        return score.probability_at_threshold
    if steady is None or log_sd is None or score.r_ceiling_loss is None:
        return None
    # numpy is imported only if another threshold is asked for, because it takes a tenth of a second.
    from ciris_scoring.basics.long_run import probability_reached  # noqa: PLC0415

    return float(probability_reached(threshold, steady, log_sd, score.r_ceiling_loss))


def _missing_evidence(score: Score, threshold: float) -> str:
    """Return a clause that says how much more evidence (traces or judged deferrals) a grant needs if the steady score
    stays as it is. The standard error of the logarithm of the loss (certainty.md §4b) falls with the square root of the
    evidence.
    """
    steady, fixed_loss = score.capacity_score_steady, score.r_ceiling_loss
    if not steady or steady <= threshold or not score.grant_score or fixed_loss is None or not threshold:
        return "a grant needs a higher score"
    from ciris_scoring.basics.long_run import log_loss  # noqa: PLC0415

    at, at_score, at_grant = (log_loss(one, fixed_loss) for one in (threshold, steady, score.grant_score))
    times = float(((at_grant - at_score) / (at - at_score)) ** 2)
    if score.interval_driver == "q_deferral" and score.n_steady_deferrals:
        more = math.ceil((times - 1) * score.n_steady_deferrals)
        return f"a grant needs about {plural(more, 'judged deferral')} more"
    return f"a grant needs about {times:.1f} times as many traces"


def percent_sure(probability: float) -> int:
    """Return the probability in percent, limited to 1 to 99."""
    return min(max(round(100 * probability), 1), 99)


def sure(probability: float) -> str:
    """Return the probability in words, for example "92 % sure"."""
    percent = percent_sure(probability)
    bound = {1: "at most ", 99: "at least "}.get(percent, "")
    return f"{bound}{percent} % sure"


def verdict(score: Score, threshold: float | None = None) -> Verdict:
    """Return the verdict on a permission that requires a steady score of at least the threshold (deciding.md).

    :param threshold: None for the threshold of the published verdict.
    """
    threshold = score.verdict_threshold if threshold is None else threshold
    found: VerdictName
    reviewing = [one.words for one in score.raised if one.reviews]
    if score.category == HIGH_FRAGILITY and all(one.name != "low_capacity" for one in score.raised):
        reviewing.append("category high fragility")
    probability, steady = _probability(score, threshold), score.capacity_score_steady
    if score.score_status == "insufficient_data":
        found, reason = "wait", "too few traces for a score"
    elif probability is None or steady is None or score.grant_score is None or score.withhold_score is None:
        found, reason = "wait", "no steady score yet: a rescore adds it"
    else:
        reason = f"steady score {decimals.score(steady)}, {sure(probability)} to reach {threshold:g}"
        if score.score_status == "provisional":
            found, reason = "wait", f"{reason}, but provisional: too little history"
        elif score.withhold_score < threshold:
            found = "withhold"
        elif score.grant_score >= threshold:
            found = "grant"
        else:
            found = "keep"
        if reviewing and found in ("grant", "keep"):
            found = "review"
    reasons = [reason, *reviewing]
    if found == "wait" and score.final_from is not None:
        reasons.append(f"final from {score.final_from:%Y-%m-%d}")
    if found == "keep":
        reasons.append(_missing_evidence(score, threshold))
    return Verdict(found, "; ".join(reasons), threshold, probability)


def raised(
    marts: Marts,
    window_days: int,
    as_of: datetime,
    *,
    first: datetime | None = None,
    agents: Sequence[str] | None = None,
) -> Mapping[str, list[Raised]]:
    """Read the alerts and red flags of agents, in the order: critical alerts, red flags, warnings.

    :param as_of: as-of of the alerts, see `AS_OF_MEANT`.
    :param first: read also the alerts and red flags that ended at or after this as-of. With None, read only what is
    raised at `as_of`.
    :param agents: agent hashes, or None for all agents.
    """
    found = marts.rows(
        Raised,
        f"""
        with {AS_OF_MEANT},

        as_ofs as (
            select as_of, row_number() over (order by as_of) as number
            from (
                select as_of from {{fct_fleet_capacity}} where window_days = %(window_days)s
                union
                select newest from alert_as_ofs where newest is not null
            ) as published
            where as_of <= (select meant.as_of from meant)
            order by as_of desc
            limit %(as_ofs)s
        ),

        raised as (
            select agent_id_hash, kind as name, severity, as_of
            from {{fct_capacity_alerts}}
            where window_days = %(window_days)s and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))

            union all

            select distinct agent_id_hash, red_flag, 'red_flag', as_of
            from {{fct_red_flags}}
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
        where
            until >= %(first)s::timestamptz
            or until = (select meant.as_of from meant)
            or (severity = 'red_flag' and until = %(as_of)s)
        order by agent_id_hash collate "C", severity collate "C", name collate "C", until
        """,
        as_of=as_of,
        window_days=window_days,
        first=first,
        agents=None if agents is None else list(agents),
        as_ofs=AS_OFS,
    )
    return grouped(found)
