"""Requests of readers: an agent, a window, an as-of, a permission. Every surface looks it up here, and says in the
same words that it does not exist.

Pages and reports show an agent as its name at the as-of and the beginning of its hash, for example "Link (4107c26f)".
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.terminal import fitted, plural, printable
from ciris_scoring.errors import InputError, shown
from ciris_scoring.marts import scores
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import windows
from ciris_scoring.marts.verdict import Permission, permissions
from ciris_scoring.names import HASH_SHOWN, WHOLE_HASH, whole_hash

LONGEST_NAME = 200
"""Longest text, in characters, for which similar names are searched."""
SAMPLE = (datetime(2026, 6, 15, tzinfo=UTC), "744f85804999ee4a")
"""End of the sample, and an agent of the sample."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Columns of dim_agents that identify an agent."""

    agent_id_hash: str
    agent_name: str | None
    former_names: list[str]


def is_possible(text: str) -> bool:
    """Return whether a text can identify an agent. A blank text cannot, nor one that PostgreSQL cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return bool(text.strip()) and "\0" not in text


def is_sample(marts: Marts, newest: datetime) -> bool:
    """Return whether the scores are those of the sample, whose age says nothing."""
    end, agent = SAMPLE
    return newest == end and bool(find(marts, whole_hash(agent)))


def find(marts: Marts, text: str) -> list[Agent]:
    """Find the agents that match a text: several if it is ambiguous.

    The text can be a complete hash, a label from the marts, a name, the beginning of a hash, or a name followed by a
    hash as in "Link (4107c26f)". In the last form only the hash is compared. The rules of precedence are:

    1. Complete hashes, labels and current names have the same precedence, because agents choose their names and
    hashes themselves. A text that is the hash of one agent and the name of another is ambiguous.
    2. A complete hash or a label takes precedence over the beginning of a hash.
    3. A complete hash, a label or a current name takes precedence over a former name.
    4. A text with the prefix ``hash:`` matches only the agent with this complete hash.

    :param text: text that the user entered. If PostgreSQL cannot store it, no agent matches.
    """
    if not is_possible(text):
        return []
    if text.startswith(WHOLE_HASH):
        query = "select {columns} from {dim_agents} where agent_id_hash = %(hash)s"
        return marts.rows(Agent, query, hash=text.removeprefix(WHOLE_HASH))
    return marts.rows(
        Agent,
        """
        with matches as (
            select
                *,
                agent_id_hash = %(text)s or agent_label = %(text)s as is_exact,
                coalesce(agent_name = %(text)s, false) as is_name,
                starts_with(agent_id_hash, %(text)s)
                or %(beside_name)s in (agent_id_hash, left(agent_id_hash, %(hash_shown)s)) as is_beginning,
                %(text)s = any(former_names) as is_former_name
            from {dim_agents}
        ),

        ranked as (
            select *, bool_or(is_exact) over () as has_exact, bool_or(is_name) over () as has_name
            from matches
        )

        select {columns}
        from ranked
        where
            is_exact
            or is_name
            or (is_beginning and not has_exact)
            or (is_former_name and not has_exact and not has_name)
        order by agent_id_hash collate "C"
        """,
        text=text,
        beside_name=text.rpartition(" ")[2].strip("()"),
        hash_shown=HASH_SHOWN,
    )


def near(marts: Marts, text: str) -> dict[str, Agent]:
    """Find the agents whose current or former name is similar to a text. Return at most three by name, the most similar
    first."""
    if len(text) > LONGEST_NAME or not is_possible(text):
        return {}
    found = marts.rows(
        Agent,
        """
        select {columns} from {dim_agents} where agent_name is not null
        order by agent_name collate "C", agent_id_hash collate "C"
        """,
    )
    names = {
        name.casefold(): (name, agent)
        for agent in reversed(found)
        for name in (*agent.former_names, agent.agent_name or "")
    }
    return dict(names[similar] for similar in difflib.get_close_matches(text.casefold(), names, n=3))


MOST_LISTED = 10
"""Maximum number of agents in a message about an ambiguous text."""
LONGEST_SHOWN = 80
TITLES = {
    "unknown-agent": "No such agent",
    "ambiguous-agent": "Several agents may be meant",
    "no-score": "There is no such score",
    "bad-parameter": "A parameter is not acceptable",
}


class NotThere(InputError):
    """The requested thing does not exist, or the request is ambiguous. The terminal prints message and hint, a page
    also lists links to what exists, and the API returns a problem document."""

    def __init__(
        self,
        kind: str,
        message: str,
        hint: str,
        *,
        agents: Sequence[Agent] = (),
        as_ofs: Sequence[datetime] = (),
        parameter: str = "",
        allowed: Sequence[str | int] = (),
    ):
        """Create the error.

        :param kind: key of `TITLES`.
        :param agents: agents that may be meant.
        :param as_ofs: as-ofs that have scores in the window, the nearest first.
        :param parameter: parameter of the API that has another value than the `allowed` ones.
        """
        super().__init__(message, hint)
        self.kind, self.agents, self.as_ofs = kind, agents, as_ofs
        self.parameter, self.allowed = parameter, allowed


def label(agent_id_hash: str, name: str | None) -> str:
    """Return an agent for a message: its name and the whole hash."""
    beside = f"({fitted(printable(agent_id_hash), 64)})"
    return f"{fitted(printable(name), 30)} {beside}" if name else beside


def agent(marts: Marts, text: str) -> Agent:
    """Return the agent that a text identifies."""
    found, named = find(marts, text), shown(text)
    named = named if len(named) <= LONGEST_SHOWN else f"{named[: LONGEST_SHOWN - 1]}…"
    if len(found) > 1:
        listed = [label(one.agent_id_hash, one.agent_name) for one in found[:MOST_LISTED]]
        more = [f"and {len(found) - MOST_LISTED} more"] if len(found) > MOST_LISTED else []
        raise NotThere(
            "ambiguous-agent",
            f"{len(found)} agents are or were called {named}, or have a hash that begins with it: "
            f"{', '.join([*listed, *more])}.",
            f"Give more of the hash, or the whole hash after {WHOLE_HASH!r}, "
            f"for example {whole_hash(found[0].agent_id_hash)}.",
            agents=found,
        )
    if not found:
        similar = near(marts, text)
        raise NotThere(
            "unknown-agent",
            f"No agent is named {named}, and no agent hash starts with it.",
            f"The nearest names are {', '.join(map(shown, similar))}." if similar else "No name is similar.",
            agents=list(similar.values()),
        )
    return found[0]


def window(published: Sequence[int], asked: int | None) -> int:
    """Return the requested window, by default the shortest of the published windows."""
    if asked not in (None, *published):
        message = f"A window of {plural(asked or 0, 'day')} is not published."
        there_are = f"there are {' and '.join(map(str, published))}"
        raise NotThere("bad-parameter", message, f"In days, {there_are}.", parameter="window_days", allowed=published)
    return asked or published[0]


def permission(marts: Marts, name: str | None, threshold: float | None, window_days: int | None) -> Permission:
    """Return the permission with a name, or else the first one with a threshold and a window.

    Without a name and a window, it is the window of the first permission of the seed, or the shortest window if the
    seed is missing or a threshold is given. If the seed has no permission with this threshold and window, the result
    has no name, and a threshold of None means that of the published verdicts.
    """
    found = permissions(marts)
    if name is None:
        if window_days is None:
            is_first = found and threshold is None
            window_days = found[0].window_days if is_first else windows(marts)[0].window_days
        fitting = (one for one in found if one.window_days == window_days and threshold in (None, one.threshold))
        return next(fitting, Permission(None, threshold, window_days))
    chosen = next((one for one in found if one.name == name), None)
    known = [str(one.name) for one in found]
    if chosen is None:
        hint = (
            f"There are {', '.join(known)}." if known else "permissions.csv names none; docs/deciding.md describes it."
        )
        raise NotThere(
            "bad-parameter",
            f"No permission is named {shown(name)}.",
            hint,
            parameter="permission",
            allowed=known,
        )
    if threshold not in (None, chosen.threshold) or window_days not in (None, chosen.window_days):
        raise NotThere(
            "bad-parameter",
            f"Permission {shown(name)} has threshold {chosen.threshold:g}, {plural(chosen.window_days, 'day')}, but "
            "another threshold or window is given too.",
            "Leave out threshold and window, which the permission decides.",
            parameter="permission",
            allowed=known,
        )
    return chosen


def fleet_as_of(marts: Marts, window_days: int, asked: datetime | None) -> datetime | None:
    """Return the requested as-of of the fleet, by default the newest. None if no score is published."""
    if scores.newest(marts) is None:
        return None
    return _chosen(_as_ofs(marts, "fct_fleet_capacity", window_days), asked, window_days, None)


def score_as_of(marts: Marts, of: Agent, window_days: int, asked: datetime | None) -> datetime:
    """Return the as-of of an agent's score in a window, by default the newest."""
    return _chosen(_as_ofs(marts, "fct_capacity_scores", window_days, of), asked, window_days, of)


def _as_ofs(marts: Marts, mart: str, window_days: int, of: Agent | None = None) -> list[datetime]:
    """Return the as-ofs of a mart in a window, in ascending order."""
    condition = "true" if of is None else "agent_id_hash = %(agent)s"
    query = f"""
        select coalesce(array_agg(as_of order by as_of), '{{{{}}}}')
        from {{{mart}}}
        where window_days = %(window_days)s and {condition}
        """
    found: list[datetime] = marts.value(query, window_days=window_days, agent=of and of.agent_id_hash)
    return found


def _chosen(as_ofs: Sequence[datetime], asked: datetime | None, window_days: int, of: Agent | None) -> datetime:
    if as_ofs and asked in (None, *as_ofs):
        return asked or as_ofs[-1]
    said = f"{_none(of)} with a window of {plural(window_days, 'day')}"
    if asked is None or not as_ofs:
        hint = "Choose another window or agent, or score the fleet with ciris-scoring run."
        raise NotThere("no-score", f"{said}.", hint)
    near = sorted(as_ofs, key=lambda one: abs(one - asked))
    first, last = as_of_time.text(as_ofs[0]), as_of_time.text(as_ofs[-1])
    raise NotThere(
        "no-score",
        f"{said} at {as_of_time.text(asked)}.",
        f"Scores exist for {plural(len(as_ofs), 'as-of')}, {first} to {last}. Nearest: "
        f"{' and '.join(map(as_of_time.text, sorted(near[:2])))}.",
        as_ofs=near,
    )


def _none(of: Agent | None) -> str:
    return f"{printable(of.agent_name or of.agent_id_hash)} has no score" if of else "No score is published"
