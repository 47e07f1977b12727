"""Agents: how they are called, and which of them is meant by a hash, the beginning of one, a name or a label.

People are shown the name that an agent bears at the as-of, and the beginning of its hash: Link (4107c26f).
"""

import difflib
from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.reading.marts import Marts

LONGEST_NAME = 200
"""Characters of a text that nearest names are looked for to."""
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


def find(marts: Marts, text: str) -> list[Agent]:
    """Find the agents that a text may mean: several when it is ambiguous, none when it means nobody.

    A whole hash, or the label of the marts, goes first. Else it may be a name, borne now or formerly, the beginning of
    a hash, or a name beside a hash as people are shown it, and then the hash says who is meant.

    :param text: what a person gave; one that the database cannot hold means nobody.
    """
    if not is_possible(text):
        return []
    return marts.rows(
        Agent,
        """
        with matches as (
            select
                {columns},
                case
                    when agent_id_hash = %(text)s or agent_label = %(text)s then 1
                    when agent_name = %(text)s or %(text)s = any(former_names) then 2
                    when starts_with(agent_id_hash, %(text)s) then 2
                    when %(beside_name)s in (agent_id_hash, left(agent_id_hash, %(hash_shown)s)) then 2
                end as way
            from {dim_agents}
        )

        select {columns}
        from matches
        where way = (select min(matches.way) from matches)
        order by agent_id_hash collate "C"
        """,
        text=text,
        beside_name=text.rpartition(" ")[2].strip("()"),
        hash_shown=HASH_SHOWN,
    )


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
