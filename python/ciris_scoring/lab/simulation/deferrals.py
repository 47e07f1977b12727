"""Deferrals of a simulated fleet, for `wbd_deferrals`."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ciris_scoring.basics.source_schema import DEFERRAL_COLUMNS
from ciris_scoring.lab.simulation.arrays import DAY, HOUR, MINUTE, NEVER, SECOND
from ciris_scoring.lab.simulation.columns import Column, frame, null_unless, times
from ciris_scoring.lab.simulation.plan import Plan
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream

_SUMMARIES = (
    "Approved as proposed.",
    "The authority confirmed the concern; the action was dropped.",
    "Approved with narrower scope.",
    "Answered the open question; the agent may go on.",
)
# Shares in per cent, before an agent's knob `deferrals_rejected` changes some to REJECTED.
_STATUS_SHARES = {"RESOLVED": 87, "ESCALATED": 6, "WITHDRAWN": 1, "PENDING": 3, "UNDER_REVIEW": 3}
_UP_TO_STATUS = np.cumsum(list(_STATUS_SHARES.values()))


class _OddDeferral(NamedTuple):
    """A deferral that covers a rule of scoring which simulated deferrals rarely meet."""

    status: str
    summary: str | None = None
    resolved_after: int | None = None
    """Hours from creation to resolution; None: no time of resolution."""
    attributable: bool = True
    dated: bool = True


_ODD_DEFERRALS = (
    _OddDeferral("RESOLVED", _SUMMARIES[0]),
    _OddDeferral("ESCALATED", _SUMMARIES[2], 4),
    _OddDeferral("REJECTED", _SUMMARIES[1], 6),
    _OddDeferral("WITHDRAWN", None, 2),
    _OddDeferral("PENDING"),
    _OddDeferral("UNDER_REVIEW"),
    _OddDeferral("AUTO_CLOSED", None, 1),  # scoring does not know this status
    _OddDeferral(" resolved ", _SUMMARIES[3], 3),
    _OddDeferral("RESOLVED", _SUMMARIES[0], 2, attributable=False),
    _OddDeferral("RESOLVED", _SUMMARIES[0], 2, dated=False),
)


def deferrals(plan: Plan) -> pd.DataFrame:
    """Return the deferrals by creation time; the deferral without a time is the last."""
    everything = pd.concat([_common_deferrals(plan), _odd_deferrals(plan)], ignore_index=True)
    return everything.sort_values("created_at", kind="stable", ignore_index=True)


def _common_deferrals(plan: Plan) -> pd.DataFrame:
    """Return about 3 deferrals per 100 traces, at most one per day, from each agent's second day on."""
    day = np.arange(plan.days)
    draws = Draws.of(plan.agent_keys[:, None], Stream.DEFERRAL, day)
    active = (day > plan.first_day[:, None]) & (day < plan.last_day[:, None])
    agent, on = np.nonzero(active & draws.chance(Draw.ACTION, 0.03 * plan.traces_per_day))
    draws = Draws(draws.keys[agent, on])
    created = plan.start + on * DAY + plan.time_of_day(draws.bits(Draw.START))
    resolved = created + 20 * MINUTE + draws.below(Draw.DELAY, 30 * 3600) * SECOND

    outcome = np.searchsorted(_UP_TO_STATUS, draws.below(Draw.STATUS, int(_UP_TO_STATUS[-1])), side="right")
    status = np.array(list(_STATUS_SHARES), dtype=object)[outcome]
    status = np.where(draws.chance(Draw.CAUSE, plan.knobs["deferrals_rejected"][agent]), "REJECTED", status)
    # A decision after the end of the simulation is not known yet.
    status = np.where(resolved >= plan.end, "PENDING", status)
    decided = (status != "PENDING") & (status != "UNDER_REVIEW")
    summary = np.array(_SUMMARIES, dtype=object)[draws.below(Draw.PROSE, len(_SUMMARIES))]
    summary = np.where(draws.chance(Draw.BLANK, 0.04), " ", summary)

    # agent_id is the agent's hash in half of the deferrals, its raw id in some, and unknown in the others.
    how = draws.below(Draw.ATTRIBUTION, 10)
    agent_id = np.where(how < 5, plan.roster.agent_id_hash[agent], plan.roster.agent_id[agent])
    columns: dict[str, Column] = {
        "deferral_id": np.array(draws.uuids(), dtype=object),
        "agent_id": np.where(how < 8, agent_id, "unknown"),
        "agent_name": plan.names_at(agent, created),
        "status": status,
        "resolution_summary": null_unless(decided, summary),
        "resolved_at": times(np.where(decided, resolved, NEVER)),
        "created_at": times(created),
    }
    return frame(columns, DEFERRAL_COLUMNS)


def _odd_deferrals(plan: Plan) -> pd.DataFrame:
    number = np.arange(len(_ODD_DEFERRALS))
    agent = number % len(plan.agent_keys)
    # A deferral is created during the agent's life, after its first trace.
    created = np.maximum(
        plan.boundaries["last"][agent] - (1 + number % 5) * (DAY // 2),
        plan.start + plan.first_day[agent] * DAY + DAY - HOUR,
    )
    resolved = [
        NEVER if odd.resolved_after is None else at + odd.resolved_after * HOUR
        for odd, at in zip(_ODD_DEFERRALS, created.tolist(), strict=True)
    ]
    attributable = np.array([odd.attributable for odd in _ODD_DEFERRALS])
    columns: dict[str, Column] = {
        "deferral_id": np.array(Draws.of(plan.fleet_key, Stream.ODD_DEFERRAL, number).uuids(), dtype=object),
        "agent_id": np.where(attributable, plan.roster.agent_id_hash[agent], "nobody-000000"),
        "agent_name": np.where(attributable, plan.names_at(agent, created), "Nobody"),
        "status": np.array([odd.status for odd in _ODD_DEFERRALS], dtype=object),
        "resolution_summary": np.array([odd.summary for odd in _ODD_DEFERRALS], dtype=object),
        "resolved_at": times(np.array(resolved)),
        "created_at": times(np.where([odd.dated for odd in _ODD_DEFERRALS], created, NEVER)),
    }
    return frame(columns, DEFERRAL_COLUMNS)
