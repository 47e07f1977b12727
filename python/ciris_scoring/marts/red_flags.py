"""Red flags of selective reporting. They are reasons for a review and do not change a score."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ciris_scoring.marts.acknowledgements import Acknowledgement
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import raised


@dataclass(frozen=True, slots=True)
class RedFlag:
    """A row of fct_record_signs, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    red_flag: str
    field: str | None
    z: float | None
    message: str
    since: datetime | None = None
    """See `Raised.since`."""
    seen: Acknowledgement | None = None
    """Acknowledgement that is in force, or None."""


def red_flags(
    marts: Marts, as_of: datetime, window_days: int, *, agents: Sequence[str] | None = None
) -> list[RedFlag]:
    """Read the red flags that are raised at an as-of, ordered by agent, acknowledged ones last.

    :param agents: read only the red flags of the agents with these hashes.
    """
    found = marts.rows(
        RedFlag,
        """
        select {columns}
        from {fct_record_signs}
        where
            as_of = %(as_of)s
            and window_days = %(window_days)s
            and (%(agents)s::text[] is null or agent_id_hash = any(%(agents)s))
        order by agent_name collate "C" nulls last, agent_id_hash collate "C", red_flag collate "C", field collate "C"
        """,
        as_of=as_of,
        window_days=window_days,
        agents=agents,
    )
    raised_now = {
        (one.agent_id_hash, one.name): one
        for of_agent in raised(marts, window_days, as_of, agents=agents).values()
        for one in of_agent
        if one.is_red_flag
    }
    for number, row in enumerate(found):
        if one := raised_now.get((row.agent_id_hash, row.red_flag)):
            found[number] = replace(row, since=one.since, seen=one.seen)
    return sorted(found, key=lambda row: row.seen is not None)
