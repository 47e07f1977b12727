"""The source tables of a simulated fleet other than its traces: batches, deferrals and keys."""

import base64
from typing import NamedTuple

import numpy as np
import pandas as pd

from ciris_scoring.database.source_schema import BATCH_COLUMNS, DEFERRAL_COLUMNS, PUBLIC_KEY_COLUMNS
from ciris_scoring.lab.simulation.arrays import DAY, HOUR, MINUTE, NEVER, SECOND
from ciris_scoring.lab.simulation.columns import Column, frame, null_unless, times
from ciris_scoring.lab.simulation.plan import RHYTHM, Plan
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream

_SUMMARIES = (
    "Approved as proposed.",
    "The authority confirmed the concern; the action was dropped.",
    "Approved with narrower scope.",
    "Answered the open question; the agent may go on.",
)
# Shares in per cent. Of each agent's deferrals, the share `deferrals_rejected` has the status REJECTED instead.
_STATUS_SHARES = {"RESOLVED": 87, "ESCALATED": 6, "WITHDRAWN": 1, "PENDING": 3, "UNDER_REVIEW": 3}
_UP_TO_STATUS = np.cumsum(list(_STATUS_SHARES.values()))


class _OddDeferral(NamedTuple):
    """A deferral with a property that random deferrals do not have, such as an unknown status."""

    status: str
    summary: str | None = None
    resolved_after: int | None = None
    """Hours from creation to resolution. If None, the deferral has no time of resolution."""
    attributable: bool = True
    dated: bool = True


_ODD_DEFERRALS = (
    _OddDeferral("RESOLVED", _SUMMARIES[0]),
    _OddDeferral("ESCALATED", _SUMMARIES[2], 4),
    _OddDeferral("REJECTED", _SUMMARIES[1], 6),
    _OddDeferral("WITHDRAWN", None, 2),
    _OddDeferral("PENDING"),
    _OddDeferral("UNDER_REVIEW"),
    _OddDeferral("AUTO_CLOSED", None, 1),  # Scoring does not know this status.
    _OddDeferral(" resolved ", _SUMMARIES[3], 3),
    _OddDeferral("RESOLVED", _SUMMARIES[0], 2, attributable=False),
    _OddDeferral("RESOLVED", _SUMMARIES[0], 2, dated=False),
)


def batches(plan: Plan) -> pd.DataFrame:
    """Return one batch for each hour with traces. The traces of a day are distributed over its hours by activity."""
    weights = np.roll(RHYTHM, -(plan.start // HOUR % 24))
    until = np.concatenate([[0], np.cumsum(weights)])
    per_day = plan.n_traces.sum(axis=0)[:, None]
    accepted = np.diff(per_day * until // until[-1], axis=1).ravel()
    hour = np.arange(accepted.size)
    draws = Draws.of(plan.fleet_key, Stream.BATCH, hour)
    rejected = (0.008 * accepted * draws.uniform(Draw.COUNT) + 1.05 * draws.uniform(Draw.CAUSE)).astype(int)
    reason = np.array(["invalid_signature", "schema_violation"], dtype=object)[draws.below(Draw.STATUS, 2)]
    columns: dict[str, Column] = {
        "batch_id": np.array(draws.uuids(), dtype=object),
        "batch_timestamp": times(plan.start + (hour + 1) * HOUR - SECOND),
        "consent_timestamp": times(np.full(hour.size, plan.start - 30 * DAY)),
        "traces_received": pd.array(accepted + rejected, dtype="Int64"),
        "traces_accepted": pd.array(accepted, dtype="Int64"),
        "traces_rejected": pd.array(rejected, dtype="Int64"),
        "rejection_reasons": np.array(
            [f'{{"{r}":{n}}}' if n else "{}" for r, n in zip(reason.tolist(), rejected.tolist(), strict=True)],
            dtype=object,
        ),
    }
    sent: pd.DataFrame = frame(columns, BATCH_COLUMNS)[accepted > 0]
    return sent.reset_index(drop=True)


def public_keys(plan: Plan) -> pd.DataFrame:
    """Return one key per agent. Every third key expires, and the keys of one pathology are revoked."""
    agents = len(plan.agent_keys)
    columns: dict[str, Column] = {
        "key_id": plan.roster.key_id,
        "public_key_base64": np.array([base64.b64encode(k).decode() for k in plan.roster.public_key], dtype=object),
        "algorithm": np.array(["ed25519"] * agents, dtype=object),
        "created_at": times(np.full(agents, plan.start - 30 * DAY)),
        "expires_at": times(np.where(np.arange(agents) % 3 == 0, plan.end + 365 * DAY, NEVER)),
        "revoked_at": times(plan.boundaries["revoked"]),
    }
    return frame(columns, PUBLIC_KEY_COLUMNS)


def deferrals(plan: Plan) -> pd.DataFrame:
    """Return the deferrals in the order of their creation. The deferral without a creation time is the last."""
    everything = pd.concat([_common_deferrals(plan), _odd_deferrals(plan)], ignore_index=True)
    return everything.sort_values("created_at", kind="stable", ignore_index=True)


def _common_deferrals(plan: Plan) -> pd.DataFrame:
    """Return about 3 deferrals per 100 traces, at most one per agent and day, from each agent's second day on."""
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
    # If the authority decides after the end of the simulation, the decision is not known yet.
    status = np.where(resolved >= plan.end, "PENDING", status)
    decided = (status != "PENDING") & (status != "UNDER_REVIEW")
    summary = np.array(_SUMMARIES, dtype=object)[draws.below(Draw.PROSE, len(_SUMMARIES))]
    summary = np.where(draws.chance(Draw.BLANK, 0.04), " ", summary)

    # agent_id is the agent's hash in 50 % of the deferrals, the agent's raw id in 30 %, and "unknown" in 20 %.
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
    # A deferral is created while the agent is active, after the agent's first trace.
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
