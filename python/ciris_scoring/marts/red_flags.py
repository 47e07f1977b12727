"""Red flags of selective reporting. They are reasons for a review and do not change a score."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.marts.marts import Marts


@dataclass(frozen=True, slots=True)
class RedFlag:
    """A row of fct_record_signs, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    red_flag: str
    field: str | None
    z: float | None
    message: str


def red_flags(
    marts: Marts, as_of: datetime, window_days: int, *, agents: Sequence[str] | None = None
) -> list[RedFlag]:
    """Read the red flags that are raised at an as-of, ordered by agent.

    :param agents: read only the red flags of the agents with these hashes.
    """
    return marts.rows(
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
