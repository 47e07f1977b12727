"""Deferrals that the component q_deferral is computed from."""

from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.marts.marts import Marts


@dataclass(frozen=True, slots=True)
class Deferral:
    """A row of fct_deferral_verdicts, with the same units and nulls. The time of the resolution is left out, because
    it may be a time that Python cannot represent."""

    deferral_id: str | None
    created_at: datetime
    status: str | None
    judged_from: datetime
    deferral_value: float


def judged_deferrals(
    marts: Marts, agent_id_hash: str, as_of: datetime, window_start: datetime
) -> list[Deferral]:
    """Read the deferrals of a window whose value was known by its end, the lowest value first."""
    return marts.rows(
        Deferral,
        """
        select {columns}
        from {fct_deferral_verdicts}
        where
            agent_id_hash = %(agent_id_hash)s
            and is_judged
            and created_at >= %(window_start)s
            and created_at < %(as_of)s
            and judged_from < %(as_of)s
        order by deferral_value, created_at desc
        """,
        agent_id_hash=agent_id_hash,
        as_of=as_of,
        window_start=window_start,
    )
