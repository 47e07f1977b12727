"""Main cause of each score in one sentence, from its published losses, components and counts.

The events behind a loss (since when, which names) are read from the evidence. A run rewrites the evidence before it
publishes, so events are told only if they agree with the published counts.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from math import isclose
from typing import Any, NamedTuple

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database.terminal import fitted, plural
from ciris_scoring.kinds.components import LOSS_WORDS
from ciris_scoring.marts.evidence import episodes
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.score import NO_TRACES, at, day

LARGE = 0.05
"""Points that a loss component must cost to be called large. The value is a judgement, not derived from data."""
MANY_NAMED = 1000
"""Maximum number of agents whose single events are looked up, which takes time. They are the agents with the largest
losses."""
NOTHING = "Nothing lowers the score."
LONGEST_NAME = 24
"""Maximum width of a name or a failure mode in a sentence, in columns of a terminal."""
CHAIN_CAUSES = {
    "key": "untrusted key",
    "signature": "unverified signatures",
    "gap": "missing audit numbers",
    "rewind": "audit numbers that go back",
    "duplicate": "repeated audit numbers",
    "link": "traces without audit number or hash",
}
"""Description of the loss component `i_chain`, by the cause of most of its loss."""


class Cause(NamedTuple):
    """Main cause of a score."""

    sentence: str
    shared: str
    """The cause in words that are equal for agents with the same cause; empty if nothing lowers the score."""
    chain: str | None
    """Description of the loss component `i_chain`, which names its largest cause. None if the chain is valid."""


Row = Mapping[str, Any]

# Score of each agent with its largest loss component besides the fixed cost. The agent with the largest loss is first.
FACTS = """
    with largest as (
        select distinct on (agent_id_hash) agent_id_hash, loss_component, points_lost
        from {fct_score_attribution}
        where
            agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
            and loss_component <> 'r_ceiling'
        order by agent_id_hash, rank
    ),

    scores as (
        select *
        from {scored}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
    )

    select
        scores.*, agents.first_traced_at, agents.last_traced_at as newest_trace_at,
        largest.loss_component, coalesce(largest.points_lost, 0) as points_lost
    from scores
    left join {dim_agents} as agents on scores.agent_id_hash = agents.agent_id_hash
    left join largest on scores.agent_id_hash = largest.agent_id_hash
    order by points_lost desc
"""
# The longest of the fragile episodes that were open in the window, and the number of these episodes.
LONGEST_EPISODES = f"""
    with {episodes("agent_id_hash = any(%(agents)s)")}

    select distinct on (agent_id_hash)
        agent_id_hash, traced_at, recovered_at, failure_mode, hours,
        count(*) over (partition by agent_id_hash) as n, avg(hours) over (partition by agent_id_hash) as mean_hours
    from episodes
    where hours is not null
    order by agent_id_hash, hours desc, traced_at
"""
# Counted traces of the window.
COUNTED = """
    from {fct_trace_checks}
    where
        agent_id_hash = any(%(agents)s)
        and traced_at >= %(window_start)s
        and traced_at < %(as_of)s
        and is_counted
"""
# Number of traces of the window with an untrusted key, and the first one since the last trace with a registered key.
UNTRUSTED = """
    select
        agent_id_hash, count(*) filter (where not is_key_registered and traced_at >= %(window_start)s) as n,
        min(traced_at) filter (where last_registered_at is null or traced_at > last_registered_at) as first_at
    from (
        select
            agent_id_hash, traced_at, is_key_registered,
            max(traced_at) filter (where is_key_registered) over (partition by agent_id_hash) as last_registered_at
        from {fct_trace_checks}
        where agent_id_hash = any(%(agents)s) and traced_at < %(as_of)s and is_counted
    ) as checks
    group by agent_id_hash
"""
# Last change of the name in the window, and the number of changes.
LAST_RENAMES = f"""
    select distinct on (agent_id_hash)
        agent_id_hash, traced_at, previous_agent_name, agent_name, count(*) over (partition by agent_id_hash) as n
    {COUNTED}
        and is_identity_change
    order by agent_id_hash, traced_at desc
"""
# Number of overrides of the window, and of those without a judgement.
OVERRIDES = f"""
    select
        agent_id_hash, count(*) as n, count(*) filter (where is_override_without_judgement) as n_without_judgement
    {COUNTED}
        and is_overridden
    group by agent_id_hash
"""
# Number of judged deferrals of the window, and numbers of deferrals with less than the full value, by reason.
POOR_DEFERRALS = """
    select
        agent_id_hash,
        count(*) as n,
        avg(deferral_value) as mean_value,
        count(*) filter (where status = 'REJECTED') as n_rejected,
        count(*) filter (where deferral_value = 0 and status <> 'REJECTED') as n_wrong,
        count(*) filter (where deferral_value > 0 and deferral_value < 1) as n_unanswered
    from {fct_deferral_values}
    where
        agent_id_hash = any(%(agents)s)
        and is_judged
        and created_at >= %(window_start)s
        and created_at < %(as_of)s
        and judged_from < %(as_of)s
    group by agent_id_hash
"""


def causes(
    marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int, silent: Collection[str]
) -> dict[str, Cause]:
    """Read the main cause of agents' scores at an as-of, by agent hash. An agent without a trace has none.

    :param silent: hashes of the agents with the alert `silent`.
    """
    key = {"as_of": as_of, "window_days": window_days, "window_start": as_of - timedelta(days=window_days)}
    facts = marts.dicts(FACTS, {"agents": list(agents), **key})
    facts = [fact for fact in facts if fact["score_status"] != NO_TRACES]
    chains = {fact["agent_id_hash"]: _chain_cause(fact) for fact in facts}
    looked_up: dict[str, list[str]] = defaultdict(list)
    for fact in facts[:MANY_NAMED]:
        component, agent = fact["loss_component"], fact["agent_id_hash"]
        query = UNTRUSTED if component == "i_chain" and chains[agent] == "key" else EVENTS_OF.get(component)
        if query:
            looked_up[query].append(agent)
    events = {
        row["agent_id_hash"]: row
        for query, of in looked_up.items()
        for row in marts.dicts(query, {"agents": of, **key})
    }
    found = {}
    for fact in facts:
        agent = fact["agent_id_hash"]
        if agent in events and not _agrees(fact, events[agent]):
            del events[agent]
        sentence = _sentence({**fact, "chain": chains[agent]}, events.get(agent))
        if agent in silent and fact["newest_trace_at"]:
            sentence = f"No trace since {at(fact['newest_trace_at'])}. {sentence}"
        chain = CHAIN_CAUSES.get(chains[agent])
        found[agent] = Cause(sentence, _shared(fact, events.get(agent), chain), chain)
    return found


def _agrees(fact: Row, event: Row) -> bool:
    """Return whether the events of an agent agree with the published score."""
    n_traces = fact["n_traces"]
    published = {
        "mttr_hours": (fact["n_episodes"], event.get("mean_hours"), fact["mttr_hours"]),
        "rho_regression": (fact["n_episodes"], event.get("mean_hours"), fact["mttr_hours"]),
        "d_identity": (round(fact["d_identity"] * n_traces), None, None),
        "k_contradiction": (round(fact["k_contradiction"] * n_traces), None, None),
        "i_chain": (n_traces - round(fact["key_rate"] * n_traces), None, None),
        "q_deferral": (fact["n_judged_deferrals"], event.get("mean_value"), fact["q_deferral"]),
    }
    n, mean, published_mean = published[fact["loss_component"]]
    return event["n"] == n and (mean is None or isclose(mean, published_mean, abs_tol=1e-9))


def _chain_cause(fact: Row) -> str:
    """Return the cause of most invalid traces in the chain, as a key of `CHAIN_CAUSES`, or "" if all are valid."""
    n = fact["n_traces"]
    broken = {name: fact[f"chain_{name}s"] for name in ("gap", "rewind", "duplicate")}
    counts = {
        "key": round((1 - fact["key_rate"]) * n),
        "signature": round((1 - fact["signature_rate"]) * n),
        **broken,
        "link": round((1 - fact["link_rate"]) * n) - sum(broken.values()),
    }
    cause = max(counts, key=lambda cause: counts[cause])
    return cause if counts[cause] else ""


def _sentence(fact: Row, event: Row | None) -> str:
    first = fact["first_traced_at"]
    begun = f"New: first trace {at(first)}. " if first and fact["score_status"] == "provisional" else ""
    if fact["capacity_score"] is None:
        return f"{begun}{plural(fact['n_traces'], 'trace')}, too few for a score."
    if not fact["points_lost"]:
        return begun + NOTHING
    component = fact["loss_component"]
    if fact["points_lost"] < LARGE:
        name = CHAIN_CAUSES[fact["chain"]] if component == "i_chain" else LOSS_WORDS[component]
        return f"{begun}No large loss; most by {name}, {decimals.score(fact['points_lost'])}."
    if component in SENTENCES:
        return begun + SENTENCES[component](fact, event or {})
    words, n = LOSS_WORDS[component], fact["n_traces"]
    return f"{begun}{words[0].upper()}{words[1:]} in {round(fact[component] * n):,} of {plural(n, 'trace')}."


def _shared(fact: Row, event: Row | None, chain: str | None) -> str:
    if fact["capacity_score"] is None:
        return "too few traces"
    component = fact["loss_component"]
    if not fact["points_lost"]:
        return ""
    if component == "mttr_hours" and event and event["recovered_at"] is None:
        return f"stuck in a fragile episode since {day(event['traced_at'])}"
    if component == "i_chain" and event and "first_at" in event:
        return f"{chain} since {day(event['first_at'])}"
    return chain or LOSS_WORDS[component] if component == "i_chain" else LOSS_WORDS[component]


def _of(n: int, whole: int, noun: str, singular: str, many: str) -> str:
    """Return a number and its total as text, for example "1 of 5 deferrals was rejected"."""
    return f"{n:,} of {plural(whole, noun)} {singular if n == 1 else many}"


def _traces(fact: Row, share: float, singular: str, many: str) -> str:
    """Return a share of the traces as text, for example "3 of 40 traces have no valid signature"."""
    n = fact["n_traces"]
    return _of(round(share * n), n, "trace", singular, many)


def _slow_recovery(fact: Row, episode: Row) -> str:
    n, hours = plural(fact["n_episodes"], "fragile episode"), fact["mttr_hours"]
    if fact["n_episodes"] == fact["n_open_episodes"]:
        mode = f" ({fitted(episode['failure_mode'], LONGEST_NAME)})" if episode else ""
        began = at(fact["as_of"] - timedelta(hours=hours))
        return f"Stuck in a fragile episode{mode} since {began}, {hours:,.0f} h."
    if not episode:
        return f"{n}, {decimals.cut(hours, 1)} h long on average."
    mode, began = fitted(episode["failure_mode"], LONGEST_NAME), at(episode["traced_at"])
    if episode["recovered_at"] is None:
        return f"Stuck in a fragile episode ({mode}) since {began}, {episode['hours']:,.0f} h."
    return f"{n}; the longest ({mode}) began {began} and lasted {episode['hours']:,.0f} h."


def _relapses(fact: Row, _: Row) -> str:
    n = f"{plural(fact['n_episodes'], 'fragile episode')}; "
    share = round(100 * fact["rho_regression"])
    return f"{n}{share} % of the recoveries were followed by a relapse into the same failure mode."


def _chain(fact: Row, untrusted: Row) -> str:
    cause = fact["chain"]
    if cause == "key":
        since = f", since {at(untrusted['first_at'])}" if untrusted else ""
        n = plural(fact["n_traces"] - round(fact["key_rate"] * fact["n_traces"]), "trace")
        return f"Signs with a key that is unknown, revoked or expired{since} ({n} of the window)."
    if cause == "signature":
        return f"{_traces(fact, 1 - fact['signature_rate'], 'has', 'have')} no valid signature."
    if cause == "link":
        return f"{_traces(fact, 1 - fact['link_rate'], 'lacks', 'lack')} the audit number or hash."
    gaps, rewinds = plural(fact["chain_gaps"], "gap"), plural(fact["chain_rewinds"], "rewind")
    repeated = plural(fact["chain_duplicates"], "repeated number")
    return f"The record is not continuous: {gaps}, {rewinds} and {repeated} in the audit numbers."


def _deferrals(fact: Row, poor: Row) -> str:
    n = fact["n_judged_deferrals"]
    if poor and poor["n_rejected"]:
        return f"{_of(poor['n_rejected'], n, 'deferral', 'was', 'were')} rejected."
    if poor and poor["n_wrong"]:
        return f"{_of(poor['n_wrong'], n, 'deferral', 'was', 'were')} not needed."
    if poor and poor["n_unanswered"]:
        return f"{_of(poor['n_unanswered'], n, 'deferral', 'has', 'have')} no written answer."
    return f"Deferrals were judged worth {decimals.score(fact['q_deferral'])} on average ({plural(n, 'deferral')})."


def _renamed(fact: Row, renamed: Row) -> str:
    n = plural(round(fact["d_identity"] * fact["n_traces"]), "time")
    last = (
        f", last {at(renamed['traced_at'])} from {fitted(renamed['previous_agent_name'] or '', LONGEST_NAME)} "
        f"to {fitted(renamed['agent_name'] or '', LONGEST_NAME)}"
        if renamed
        else ""
    )
    return f"Changed its name {n}{last}."


def _overridden(fact: Row, unjudged: Row) -> str:
    n = unjudged["n_without_judgement"] if unjudged else 0
    without = f", {n:,} of them without a judgement, because a check did not run" if n else ""
    return f"{_traces(fact, fact['k_contradiction'], 'was', 'were')} overridden by the conscience{without}."


def _drift(fact: Row, _: Row) -> str:
    of = {
        "plausibility": fact["delta_csdma_plausibility_score"],
        "alignment": fact["delta_dsdma_domain_alignment"],
        "coherence": fact["delta_coherence_level"],
    }
    most = max(of, key=lambda name: of[name] or 0)
    drift, of_most = decimals.score(fact["delta_drift"]), decimals.score(of[most])
    return f"Drifts away from its earlier behaviour, by {drift} of 1; most in {most}, by {of_most}."


SENTENCES: Mapping[str, Callable[[Row, Row], str]] = {
    "d_identity": _renamed,
    "k_contradiction": _overridden,
    "i_chain": _chain,
    "i_coverage": lambda fact, _: (
        f"{decimals.cut(10 * (1 - fact['i_coverage']), 1)} of 10 fields are missing in an average trace."
    ),
    "i_replay": lambda fact, _: (
        _of(
            round((1 - fact["i_replay"]) * fact["n_replayed"]),
            fact["n_replayed"],
            "sampled decision",
            "does",
            "do",
        )
        + " not follow from the recorded inputs."
    ),
    "delta_drift": _drift,
    "mttr_hours": _slow_recovery,
    "rho_regression": _relapses,
    "ece": lambda fact, _: f"Its confidence differs from its success by {decimals.score(fact['ece'])} on average.",
    "q_deferral": _deferrals,
    "s_score": lambda fact, _: (
        f"{round(100 * (1 - fact['sigma'] / fact['sigma_max']))} % of "
        f"{plural(fact['n_signals'], 'coherence signal')} were incoherent or not verified."
        if fact["sigma_max"]
        else "No coherence check is recorded."
    ),
}
"""Sentences about loss components, from the row of the score and the events of the agent. Each other component is the
share of traces with an event."""
EVENTS_OF = {
    "mttr_hours": LONGEST_EPISODES,
    "rho_regression": LONGEST_EPISODES,
    "d_identity": LAST_RENAMES,
    "k_contradiction": OVERRIDES,
    "q_deferral": POOR_DEFERRALS,
}
"""Query of the events behind a loss component, by name of the loss component."""
