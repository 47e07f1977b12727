"""Agents: how they are called, and which of them is meant by a hash, the beginning of one, a name or a label.

People are shown the name that an agent bears at the as-of, and the beginning of its hash: Link (4107c26f).
"""

import difflib
from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.reading.marts import Marts

LONGEST_NAME = 200
"""Characters of a text that nearest names are looked for to."""
MOST_FORMER = 3
"""Agents that once had a name and that a note lists."""
WHOLE_HASH = "hash:"
"""Prefix of a text that is a whole hash and nothing else."""
HASH_SHOWN = 8
"""Characters of a hash that stand beside a name."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A row of dim_agents; units and nulls are those of the mart."""

    agent_id_hash: str
    agent_name: str | None
    former_names: list[str]
    first_traced_at: datetime
    last_traced_at: datetime
    latest_as_of: datetime | None


def is_possible(text: str) -> bool:
    """Whether a text can mean an agent at all: not when blank, nor when the database could not hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return bool(text.strip()) and "\0" not in text


def whole_hash(agent_id_hash: str) -> str:
    """Write a hash so that it means this agent, even where another agent is named like it."""
    return f"{WHOLE_HASH}{agent_id_hash}"


@dataclass(frozen=True, slots=True)
class Found:
    """Agents that a text may mean."""

    agents: list[Agent]
    """Several when the text is ambiguous, none when it means nobody."""
    former: list[Agent]
    """Other agents that once had this text as their name."""

    @property
    def note(self) -> str | None:
        """A sentence about the agents that once had the name; None where there are none."""
        if not self.former:
            return None
        hashes = ", ".join(agent.agent_id_hash for agent in self.former[:MOST_FORMER])
        more = f" and {len(self.former) - MOST_FORMER} more" if len(self.former) > MOST_FORMER else ""
        agents = "Another agent" if len(self.former) == 1 else f"{len(self.former)} other agents"
        return f"{agents} once had this name: {hashes}{more}."


@dataclass(frozen=True, slots=True)
class _Match(Agent):
    is_exact: bool
    """Whether the text is the agent's whole hash or its label."""
    is_name: bool
    is_beginning: bool


def find(marts: Marts, text: str) -> Found:
    """Find the agents that a text may mean.

    A text is a whole hash, a label of the marts, a name, the beginning of a hash, or a name beside a hash as people are
    shown it, where the hash says who is meant. Agents choose their names and hashes themselves, so nothing takes
    precedence over a present name: a text that is one agent's hash and another's name is ambiguous. A whole hash or a
    label takes precedence over beginnings of hashes. A whole hash, a label or a present name takes precedence over a
    former name; the note then tells the agents that had it. ``hash:`` before a whole hash means that agent and no
    other.

    :param text: what a person gave; one that the database cannot hold means nobody.
    """
    if not is_possible(text):
        return Found([], [])
    if text.startswith(WHOLE_HASH):
        query = "select {columns} from {dim_agents} where agent_id_hash = %(hash)s"
        return Found(marts.rows(Agent, query, hash=text.removeprefix(WHOLE_HASH)), [])
    matches = marts.rows(
        _Match,
        """
        with matches as (
            select
                agent_id_hash, agent_name, former_names, first_traced_at, last_traced_at, latest_as_of,
                agent_id_hash = %(text)s or agent_label = %(text)s as is_exact,
                coalesce(agent_name = %(text)s, false) as is_name,
                starts_with(agent_id_hash, %(text)s)
                or %(beside_name)s in (agent_id_hash, left(agent_id_hash, %(hash_shown)s)) as is_beginning,
                %(text)s = any(former_names) as is_former_name
            from {dim_agents}
        )

        select {columns}
        from matches
        where is_exact or is_name or is_beginning or is_former_name
        order by agent_id_hash collate "C"
        """,
        text=text,
        beside_name=text.rpartition(" ")[2].strip("()"),
        hash_shown=HASH_SHOWN,
    )
    if not any(one.is_exact or one.is_name for one in matches):
        return Found(list(matches), [])
    is_beginning_enough = not any(one.is_exact for one in matches)
    meant = [
        one for one in matches if one.is_exact or one.is_name or (is_beginning_enough and one.is_beginning)
    ]
    # The others had the name, unless the text is only the beginning of their hash.
    former = [one for one in matches if one not in meant and text in one.former_names]
    return Found(list(meant), list(former))


def near(marts: Marts, text: str) -> dict[str, Agent]:
    """Find agents whose name, present or former, is like a text, by that name: three at most, the nearest first."""
    if len(text) > LONGEST_NAME:
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
    return dict(names[near] for near in difflib.get_close_matches(text.casefold(), names, n=3))


@dataclass(frozen=True, slots=True)
class Unscored:
    """An agent of dim_agents without a score at an as-of in a window."""

    agent_id_hash: str
    agent_name: str | None
    score_status: str | None
    """Null where the window has no trace of it."""
    n_traces: int
    last_traced_at: datetime | None


def unscored(marts: Marts, as_of: datetime | None, window_days: int) -> list[Unscored]:
    """Read the agents that had begun and have no score at an as-of; all agents where it is None.

    Those with most traces in the window come first, then those seen last.
    """
    return marts.rows(
        Unscored,
        """
        select
            agents.agent_id_hash, agents.agent_name, scores.score_status, coalesce(scores.n_traces, 0) as n_traces,
            agents.last_traced_at
        from {dim_agents} as agents
        left join {fct_capacity_scores} as scores
            on
                agents.agent_id_hash = scores.agent_id_hash
                and scores.as_of = %(as_of)s::timestamptz
                and scores.window_days = %(window_days)s
        where
            scores.capacity_score is null
            and (%(as_of)s::timestamptz is null or agents.first_traced_at < %(as_of)s)
        order by n_traces desc, agents.last_traced_at desc, agents.agent_id_hash collate "C"
        """,
        as_of=as_of,
        window_days=window_days,
    )
