"""What a reader asks for: an agent, a window, an as-of, a permission. Every surface looks it up here, and says in the
same words that it does not exist."""

from collections.abc import Sequence
from datetime import datetime

from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.terminal import fitted, plural, printable
from ciris_scoring.errors import InputError, shown
from ciris_scoring.marts import agents, fleet, history
from ciris_scoring.marts.agents import Agent
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.permissions import Permission, meant, permissions
from ciris_scoring.marts.words import published_words
from ciris_scoring.names import WHOLE_HASH, whole_hash

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
    """What was asked for does not exist, or is ambiguous. The terminal prints message and hint, a page also lists links
    to what exists, and the API returns a problem document."""

    def __init__(
        self,
        kind: str,
        message: str,
        hint: str,
        *,
        agents: Sequence[Agent] = (),
        as_ofs: Sequence[datetime] = (),
        of: Agent | None = None,
        window_days: int = 0,
        parameter: str = "",
        allowed: Sequence[str | int] = (),
    ):
        """Create the error.

        :param kind: key of `TITLES`.
        :param agents: agents that may be meant.
        :param as_ofs: as-ofs that have scores in the window, the nearest first.
        :param of: agent whose scores they are; None for the fleet.
        :param parameter: parameter of the API that has another value than the `allowed` ones.
        """
        super().__init__(message, hint)
        self.kind, self.agents, self.as_ofs = kind, agents, as_ofs
        self.of, self.window_days = of, window_days
        self.parameter, self.allowed = parameter, allowed


def label(agent_id_hash: str, name: str | None) -> str:
    """Return an agent for a message: its name and the whole hash."""
    beside = f"({fitted(printable(agent_id_hash), 64)})"
    return f"{fitted(printable(name), 30)} {beside}" if name else beside


def agent(marts: Marts, text: str) -> tuple[Agent, str | None]:
    """Return the agent that a text identifies, and a note about agents that had its name before."""
    matches = agents.find(marts, text)
    found, named = matches.agents, shown(text)
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
        near = agents.near(marts, text)
        raise NotThere(
            "unknown-agent",
            f"No agent is named {named}, and no agent hash starts with it.",
            f"The nearest names are {', '.join(map(shown, near))}." if near else "No name is similar.",
            agents=list(near.values()),
        )
    return found[0], matches.note


def window(published: Sequence[int], asked: int | None) -> int:
    """Return the requested window, by default the shortest of the published windows."""
    if asked not in (None, *published):
        message = f"A window of {plural(asked or 0, 'day')} is not published."
        there_are = f"there are {' and '.join(map(str, published))}"
        raise NotThere("bad-parameter", message, f"In days, {there_are}.", parameter="window_days", allowed=published)
    return asked or published[0]


def permission(marts: Marts, name: str | None, threshold: float | None, window_days: int | None) -> Permission:
    """Return the permission with a name, or else with a threshold and a window (see `meant`)."""
    found = permissions(marts)
    if name is None:
        published = [one.window_days for one in windows(marts)]
        return meant(found, published, threshold, window_days)
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
    if asked is not None and fleet.capacity(marts, asked, window_days) is not None:
        return asked
    newest = fleet.newest(marts, window_days)
    if newest is None and fleet.newest(marts) is None:
        return None
    if asked is None and newest is not None:
        return newest.as_of
    as_ofs = [row.as_of for row in fleet.capacity_over_time(marts, window_days)]
    return _chosen(as_ofs, asked, window_days, None)


def score_as_of(
    marts: Marts, of: Agent, window_days: int | None, asked: datetime | None
) -> tuple[int, list[datetime], datetime]:
    """Return window and as-of of an agent's score, with all its as-ofs in this window. The defaults are the shortest
    window in which the agent has a score, and the newest as-of."""
    as_ofs = history.as_ofs(marts, of.agent_id_hash)
    window_days = window_days or min(as_ofs, default=windows(marts)[0].window_days)
    of_window = as_ofs.get(window_days, [])
    if as_ofs and not of_window:
        hint = f"It has scores in windows of {' and '.join(map(str, as_ofs))} days."
        raise NotThere("no-score", f"{_none(of)} with a window of {plural(window_days, 'day')}.", hint)
    return window_days, of_window, _chosen(of_window, asked, window_days, of)


def _chosen(as_ofs: Sequence[datetime], asked: datetime | None, window_days: int, of: Agent | None) -> datetime:
    if as_ofs and asked in (None, *as_ofs):
        return asked or as_ofs[-1]
    said = f"{_none(of)} with a window of {plural(window_days, 'day')}"
    if asked is None or not as_ofs:
        hint = "Choose another window or agent, or score the fleet with ciris-scoring run."
        raise NotThere("no-score", f"{said}.", hint)
    near = sorted(as_ofs, key=lambda one: abs(one - asked))
    raise NotThere(
        "no-score",
        f"{said} at {as_of_time.text(asked)}.",
        published_words(as_ofs, asked),
        as_ofs=near,
        of=of,
        window_days=window_days,
    )


def _none(of: Agent | None) -> str:
    return f"{printable(of.agent_name or of.agent_id_hash)} has no score" if of else "No score is published"
