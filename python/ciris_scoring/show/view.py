"""One document of an agent and one of the fleet: all that a surface says, read once from the published marts.

Members that are columns of marts have the names, units and nulls of the columns, and `MEMBERS` describes the others.
Commands and API write the documents as JSON; terminal, pages and report render them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.errors import InputError
from ciris_scoring.marts import alerts, asking, evidence, history, reference
from ciris_scoring.marts import scores as scores_of
from ciris_scoring.marts.marts import Marts, grouped
from ciris_scoring.marts.score import Raised, Score
from ciris_scoring.marts.verdict import VERDICTS, Permission, permissions, raised, verdict
from ciris_scoring.names import FACTORS, whole_hash

Document = dict[str, Any]

HISTORY_DAYS = 60
"""Default days of history."""
NOT_SHOWN = {"capacity_score_steady_log_sd", "r_ceiling_loss", "last_category_label", "shared_cause"}
"""Fields of a score that no document has, because they are only inputs of its words."""
OF_SCORE = tuple(one.name for one in fields(Score) if one.name not in {"raised", *NOT_SHOWN})
OF_CHANGE = ("factor", "loss_component", "loss_change", "points", "rank")
"""Members of the change of a loss component in a comparison."""
MAX_TRACES = 10
"""Number of costly traces in the document of an agent."""

MEMBERS: Mapping[str, str] = {
    "agents": "Agents with a row at the as-of, the most urgent first.",
    "agents_not_shown": "Number of agents that are not in `agents`.",
    "alerts": "Alerts of the window at the as-of, critical ones first.",
    "categories": "Categories, the lowest first.",
    "cause": "Main cause of the score, in one sentence.",
    "chain_cause": "Largest cause of the loss component i_chain, in a few words; null if it lost nothing.",
    "comparisons": "Changes of the score since one window and since one as-of before.",
    "components": "Values that the factors are computed from.",
    "events": "Renames, untrusted keys, breaks of the chain and changes of parameters in the time of `history`.",
    "explained_as_of": "As-of of components, losses, comparisons and traces: the newest with a score if the agent is "
    "silent.",
    "final_from": "Day (UTC) from which the score is final; null if it is not provisional.",
    "fleet": "The fleet at the as-of; null if no agent has a row.",
    "guidance": "Guidance of the category; null without one.",
    "history": "Scores up to the as-of, the oldest first.",
    "last_score": "The newest score of a silent agent; null for another agent.",
    "look_for": "Reasons for a review or a suspension, in words; empty if there are none.",
    "loss_components": "Points that each loss component takes from a score of 1, the most first.",
    "lowered_by": "Amount by which the trace lowered the component, in `lowered_by_unit`.",
    "missing_traces": "Number of further traces that a score needs; null with a score.",
    "n_costly_traces": "Number of traces that lowered a component that lost points.",
    "name": "Kind of the alert, or name of the red flag.",
    "newest_trace_at": "Last trace; null if it is not before the as-of.",
    "news": "Changes since the as-of before, in words.",
    "other_windows": "Alerts and red flags that are raised only in another window.",
    "parameters": "All parameters.",
    "permission": "Name of the permission that the verdict is about; null if none has this threshold and window.",
    "permissions": "Verdict for each permission of permissions.csv.",
    "points": "Points that the trace costs; null without a score.",
    "raised": "Alerts and red flags, critical alerts first.",
    "raised_before": "Alerts and red flags that were raised in the time of `history`, with those that ended.",
    "red_flags": "Red flags of the window at the as-of.",
    "reviews": "Whether a person must review the agent before the score decides.",
    "score_left": "1 minus the points of this loss component and of those with more points.",
    "severity": "critical or warning for an alert, red_flag for a red flag.",
    "silence": "Last trace and newest score of a silent agent, in words; null for another agent.",
    "since": "First as-of of the unbroken time in which it is raised; null if it began at the oldest as-of, or 400 or "
    "more as-ofs ago.",
    "steady_difference": "Points of each factor from the capacity score to the steady score, which they sum to; null "
    "if one of the two is null.",
    "traces": "Traces that lowered the score.",
    "until": "Last as-of at which it was raised.",
    "verdict_reason": "Reason for the verdict, in words.",
    "verdict_threshold": "Steady score that the permission requires.",
    "verdicts": "Number of agents by verdict.",
    "windows": "Windows, the shortest first.",
    "words": "Capacity score, category and guidance in words.",
}
"""Descriptions of the members that are not columns of marts. The OpenAPI document of the API has them."""


@dataclass(frozen=True)
class Chosen:
    """Request of a reader: the permission, which has threshold and window, and the as-of of the fleet."""

    permission: Permission
    as_of: datetime | None
    """None if no score is published."""

    @property
    def window_days(self) -> int:
        """Length of the window in days."""
        return self.permission.window_days


def choose(
    marts: Marts,
    window_days: int | None = None,
    as_of: datetime | None = None,
    threshold: float | None = None,
    permission: str | None = None,
) -> Chosen:
    """Look up what a reader asks for.

    :param window_days: None for the window of the permission, or else of the first permission.
    :param as_of: None for the newest.
    :param threshold: None for the threshold of the permission.
    :param permission: name of a permission; None for the first one with this threshold and window.
    :raises NotThere: window, as-of or permission does not exist.
    """
    asking.window([one.window_days for one in reference.windows(marts)], window_days)
    found = asking.permission(marts, permission, threshold, window_days)
    return Chosen(found, asking.fleet_as_of(marts, found.window_days, as_of))


# --- scores ----------------------------------------------------------------------------------------------------------


def of_score(score: Score, permission: Permission) -> Document:
    """Return the members of a score and of the verdict about a permission."""
    return {
        **{name: getattr(score, name) for name in OF_SCORE},
        "words": score.words,
        "silence": score.silence or None,
        "steady_difference": score.steady_difference,
        "raised": list(map(_of_raised, score.raised)),
        **_of_verdict(score, permission),
    }


def _of_verdict(score: Score, permission: Permission) -> Document:
    found = verdict(score, permission.threshold)
    return {
        "permission": permission.name,
        "window_days": score.window_days,
        "verdict": found.verdict,
        "verdict_reason": found.reason,
        "look_for": found.look_for,
        "verdict_threshold": found.threshold,
        "probability_at_threshold": found.probability,
    }


def _of_raised(one: Raised) -> Document:
    names = ("name", "severity", "since", "until", "reviews")
    return {name: getattr(one, name) for name in names}


def factors_of(score: Document) -> dict[str, float | None]:
    """Return the five factors of a score by their names."""
    return {name: score[column] for name, column in FACTORS.items()}


# --- the fleet -------------------------------------------------------------------------------------------------------


def fleet_scores(marts: Marts, chosen: Chosen) -> list[Score]:
    """Read the scores of all agents, the most urgent first."""
    if chosen.as_of is None:
        return []
    scores = scores_of.scores(marts, chosen.as_of, chosen.window_days)
    return sorted(scores, key=lambda score: scores_of.attention(score, chosen.permission.threshold))


def fleet_document(
    marts: Marts,
    chosen: Chosen,
    scores: Sequence[Score],
    shown: Sequence[Score] | None = None,
    *,
    days: int = HISTORY_DAYS,
    in_detail: bool = False,
) -> Document:
    """Return the document of the fleet.

    :param scores: result of `fleet_scores`.
    :param shown: the scores that `agents` lists; None for all.
    :param days: days of history.
    :param in_detail: whether `agents` has the whole documents of agents, as in a report.
    """
    shown = scores if shown is None else shown
    as_of, window_days = chosen.as_of, chosen.window_days
    document: Document = {
        "as_of": as_of,
        "window_days": window_days,
        "permission": chosen.permission.name,
        "verdict_threshold": chosen.permission.threshold,
        "fleet": None,
        "verdicts": dict.fromkeys(VERDICTS, 0),
        "permissions": [],
        "news": [],
        "agents": [],
        "agents_not_shown": len(scores) - len(shown),
        **raised_document(marts, chosen),
        "history": [],
    }
    if as_of is None:
        return document
    others = [
        one for one in permissions(marts) if one.window_days == window_days and one.name != chosen.permission.name
    ]
    over_time = scores_of.capacity_over_time(
        marts, window_days, first=as_of - timedelta(days=days), last=as_of, daily=True
    )
    listed = agent_documents(marts, shown, chosen, days=days) if in_detail else brief_documents(marts, shown, chosen)
    return document | {
        "verdict_threshold": next((one["verdict_threshold"] for one in listed), chosen.permission.threshold),
        "fleet": asdict(over_time[-1]) if over_time else None,
        "verdicts": _verdicts(scores, chosen.permission),
        "permissions": [
            {"permission": one.name, "verdict_threshold": one.threshold, "verdicts": _verdicts(scores, one)}
            for one in others
        ],
        "news": alerts.since_before(marts, as_of, window_days, scores).lines(),
        "agents": listed,
        "history": list(map(asdict, over_time)),
    }


def _verdicts(scores: Iterable[Score], permission: Permission) -> dict[str, int]:
    counted = Counter(verdict(score, permission.threshold).verdict for score in scores)
    return {name: counted[name] for name in VERDICTS}


def brief_documents(marts: Marts, scores: Sequence[Score], chosen: Chosen) -> list[Document]:
    """Return scores, each with its verdict and the alerts of other windows."""
    elsewhere = _other_windows(marts, scores)
    return [of_score(score, chosen.permission) | {"other_windows": elsewhere[score.agent_id_hash]} for score in scores]


def _other_windows(marts: Marts, scores: Sequence[Score]) -> Mapping[str, list[Document]]:
    """Return the alerts and red flags that agents have only in another window, by agent hash."""
    found: dict[str, list[Document]] = defaultdict(list)
    here = {score.agent_id_hash: {one.name for one in score.raised} for score in scores}
    if not scores:
        return found
    for other in reference.windows(marts):
        if other.window_days == scores[0].window_days:
            continue
        of_agents = raised(marts, other.window_days, scores[0].as_of, agents=list(here) if len(here) == 1 else None)
        for hashed, of in of_agents.items():
            more = [
                _of_raised(one) | {"window_days": other.window_days}
                for one in of
                if one.name not in here.get(hashed, ())
            ]
            if more:
                found.setdefault(hashed, []).extend(more)
    return found


def raised_document(marts: Marts, chosen: Chosen) -> Document:
    """Return the members of the fleet's document about alerts and red flags."""
    as_of, window_days = chosen.as_of, chosen.window_days
    return {
        "as_of": as_of,
        "window_days": window_days,
        "alerts": list(map(asdict, alerts.alerts(marts, as_of, window_days))) if as_of else [],
        "red_flags": list(map(asdict, alerts.red_flags(marts, as_of, window_days))) if as_of else [],
    }


def parameters_document(marts: Marts) -> Document:
    """Return the parameters, categories and windows that scores are computed with."""
    return {
        "categories": list(map(asdict, reference.categories(marts))),
        "parameters": list(map(asdict, reference.parameters(marts))),
        "windows": list(map(asdict, reference.windows(marts))),
    }


# --- agents ----------------------------------------------------------------------------------------------------------


def choose_agent(
    marts: Marts,
    text: str,
    window_days: int | None = None,
    as_of: datetime | None = None,
    threshold: float | None = None,
    permission: str | None = None,
) -> tuple[Chosen, Score]:
    """Look up an agent and its score. The other arguments are those of `choose`.

    :param text: hash, beginning of a hash, name or label.
    :param as_of: None for the newest of the agent. Alerts and red flags are then those of the newest of the fleet.
    :raises NotThere: the agent is ambiguous or does not exist, or has no such score.
    """
    chosen = choose(marts, window_days, None, threshold, permission)
    agent = asking.agent(marts, text)
    at = asking.score_as_of(marts, agent, chosen.window_days, as_of)
    chosen = replace(chosen, as_of=as_of or chosen.as_of)
    key = (marts, at, chosen.window_days)
    [score] = scores_of.scores(*key, agent_id_hash=agent.agent_id_hash, raised_at=chosen.as_of)
    return chosen, score


def agent_documents(
    marts: Marts, scores: Sequence[Score], chosen: Chosen, *, days: int = HISTORY_DAYS
) -> list[Document]:
    """Return the documents of agents, in the order of their scores.

    :param scores: scores of one as-of and window.
    """
    if not scores:
        return []
    as_of, window_days = scores[0].as_of, scores[0].window_days
    hashes = [score.agent_id_hash for score in scores]
    first = as_of - timedelta(days=days)
    raised_at = chosen.as_of or as_of
    points = history.histories(marts, hashes, window_days, first=first, last=as_of, daily_at=as_of)
    begun = min((of[0].as_of for of in points.values()), default=as_of)
    lists: dict[str, Mapping[str, Sequence[Any]]] = {
        "history": points,
        "events": history.events(marts, hashes, window_days, begun, as_of),
        "alerts": grouped(alerts.alerts(marts, raised_at, window_days, agents=hashes)),
        "red_flags": grouped(alerts.red_flags(marts, as_of, window_days, agents=hashes)),
    }
    spans = raised(marts, window_days, raised_at, first=begun, agents=hashes)
    by_permission = _by_permission(marts, scores)
    explained = {score.agent_id_hash: score for score in scores} | _last_scores(marts, scores)
    details = _details(marts, explained.values())
    return [
        {
            **brief,
            "last_score": None if explained[hashed] is score else of_score(explained[hashed], chosen.permission),
            "explained_as_of": explained[hashed].as_of,
            "permissions": by_permission[hashed],
            **details[hashed],
            **{name: _rows(of[hashed]) for name, of in lists.items()},
            "raised_before": list(map(_of_raised, spans[hashed])),
        }
        for score, brief in zip(scores, brief_documents(marts, scores, chosen), strict=True)
        for hashed in [score.agent_id_hash]
    ]


def _last_scores(marts: Marts, scores: Iterable[Score]) -> dict[str, Score]:
    """Return the newest scores of silent agents, by agent hash."""
    of_as_of: dict[datetime, list[Score]] = defaultdict(list)
    for score in scores:
        if score.is_silent and score.last_scored_as_of is not None:
            of_as_of[score.last_scored_as_of].append(score)
    return {
        last.agent_id_hash: last
        for as_of, silent in of_as_of.items()
        for hashes in [{score.agent_id_hash for score in silent}]
        for only in [next(iter(hashes)) if len(hashes) == 1 else None]
        for last in scores_of.scores(marts, as_of, silent[0].window_days, agent_id_hash=only)
        if last.agent_id_hash in hashes
    }


def _by_permission(marts: Marts, scores: Sequence[Score]) -> Mapping[str, list[Document]]:
    """Return the verdicts for each named permission, by agent hash."""
    found: dict[str, list[Document]] = {score.agent_id_hash: [] for score in scores}
    of_window = {scores[0].window_days: scores}
    for permission in permissions(marts):
        days = permission.window_days
        if days not in of_window:
            only = scores[0].agent_id_hash if len(scores) == 1 else None
            of_window[days] = scores_of.scores(marts, scores[0].as_of, days, agent_id_hash=only)
        for score in of_window[days]:
            if score.agent_id_hash in found:
                found[score.agent_id_hash].append(_of_verdict(score, permission))
    return found


def _details(marts: Marts, scores: Collection[Score]) -> Mapping[str, Document]:
    """Return components, loss components and comparisons of scores, by agent hash."""
    found: dict[str, Document] = {}
    for as_of in {score.as_of for score in scores}:
        of = [score for score in scores if score.as_of == as_of]
        hashes = [score.agent_id_hash for score in of]
        key = (marts, hashes, as_of, of[0].window_days)
        components, losses = grouped(scores_of.components(*key)), grouped(scores_of.attribution(*key))
        comparisons = _comparisons(*key)
        for hashed in hashes:
            found[hashed] = {
                "components": _rows(components[hashed]),
                "loss_components": _rows(losses[hashed]),
                "comparisons": comparisons[hashed],
            }
    return found


def _comparisons(
    marts: Marts, hashes: Sequence[str], as_of: datetime, window_days: int
) -> Mapping[str, list[Document]]:
    """Return the comparisons of scores with earlier ones, by agent hash, each with its loss components."""
    lost: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for one in scores_of.changes(marts, hashes, as_of, window_days):
        lost[one.agent_id_hash, one.compared_with].append({name: getattr(one, name) for name in OF_CHANGE})
    found: dict[str, list[Document]] = defaultdict(list)
    for row in scores_of.comparisons(marts, hashes, as_of, window_days):
        losses = {"loss_components": lost[row.agent_id_hash, row.compared_with]}
        found[row.agent_id_hash].append(_rows([row])[0] | losses)
    return found


def _rows(found: Iterable[Any]) -> list[Document]:
    """Return the rows of one agent without its hash, because the document that contains them has it."""
    return [{name: value for name, value in asdict(row).items() if name != "agent_id_hash"} for row in found]


def explanation(marts: Marts, chosen: Chosen, score: Score, since: datetime | None = None) -> Document:
    """Return the document of an agent with the events and traces behind its score.

    :param since: earlier as-of to compare with.
    """
    [document] = agent_documents(marts, [score], chosen)
    explained = document["last_score"] or document
    of_traces = (marts, score.agent_id_hash, explained["as_of"], explained["window_start"])
    return document | {
        "since": None if since is None else _since(marts, document, explained["as_of"], since),
        "window_events": evidence.window_events(*of_traces),
        "n_traces_by_component": evidence.counts(*of_traces),
        **evidence.costliest(*of_traces, score.window_days, most=MAX_TRACES),
    }


def _since(marts: Marts, document: Document, as_of: datetime, earlier: datetime) -> Document:
    """Compare a score with that of an earlier as-of. Changes by component that are not published are null."""
    if earlier >= as_of:
        raise InputError(
            f"--since is {as_of_time.text(earlier)}, which is not before the as-of {as_of_time.text(as_of)}.",
            "Give an earlier as-of.",
        )
    window_days, agent = document["window_days"], whole_hash(document["agent_id_hash"])
    now, before = (choose_agent(marts, agent, window_days, at)[1] for at in (as_of, earlier))
    is_alike = before.parameter_set_id == now.parameter_set_id
    before_score, now_score = before.capacity_score, now.capacity_score
    change = None if before_score is None or now_score is None or not is_alike else now_score - before_score
    reason = None if change is not None else "no_score" if is_alike else "other_parameter_set"
    published = [one for one in document["comparisons"] if one["compared_as_of"] == earlier]
    return {
        "compared_with": "since",
        "compared_as_of": earlier,
        "score_before": before_score,
        "score_now": now_score,
        "change": change,
        "not_comparable_because": reason,
        "factors": _difference(before.factors, now.factors) if is_alike else None,
        "loss_components": published[0]["loss_components"] if published else None,
    }


def _difference(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> dict[str, float] | None:
    """Return the change of each factor; None if one of the two scores has no factors."""
    found = {
        name: value - earlier
        for name, value in now.items()
        if value is not None and (earlier := before[name]) is not None
    }
    return found if len(found) == len(now) else None


def of_trace(one: evidence.Trace) -> Document:
    """Return a trace that lowered a component."""
    row = {name: value for name, value in asdict(one).items() if name not in ("trace_check_id", "loss_component")}
    return row | {"recorded": one.recorded}
