"""Manipulations by which an operator could raise the score of an agent: selective reporting and false records.

Each manipulation takes a simulated fleet, one of its agents and a time, and returns the fleet as it would be recorded
if the operator had begun at that time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ciris_scoring.lab.simulation.fleet import Fleet

EXEMPT = "HandlerActionType.TASK_COMPLETE"
COMPONENTS = {
    "action_was_overridden": ("conscience_result", ["action_was_overridden"]),
    "idma_fragility_flag": ("dma_results", ["idma"]),
    "coherence_passed": ("conscience_result", ["coherence_passed"]),
    "action_success": ("action_result", ["execution_success", "success"]),
    "csdma_plausibility_score": ("dma_results", ["csdma", "csdma_plausibility_score"]),
    "conscience_passed": ("conscience_result", ["conscience_passed"]),
}
"""JSON component that contains each field, and the keys under which versions of the agent write the field there."""

GOOD, BAD = ["action_success", "conscience_passed"], ["idma_fragility_flag", "action_was_overridden"]
NO_PART_OF_TRIVIAL_ONES = (
    *("csdma_plausibility_score", "dsdma_domain_alignment", "entropy_level", "coherence_passed"),
    *("thought_start", "dma_results", "conscience_result", "action_result"),
)

Polish = Callable[[Fleet, str, datetime], Fleet]


class Manipulation(NamedTuple):
    """A way to falsify the record of an agent."""

    name: str
    pathology: str
    """Pathology of the simulated agents on which the manipulation is tried."""
    polish: Polish
    red_flag: str | None
    """Red flag that the manipulation should raise, or None."""
    lasts: bool = True
    """Whether the manipulation continues, or is done only once."""


def _mine(fleet: Fleet, agent: str, since: datetime) -> pd.Series:
    return (fleet.traces["agent_id_hash"] == agent) & (fleet.traces["timestamp"] >= since)


def _is(fleet: Fleet, field: str, value: bool) -> pd.Series:
    return (fleet.traces[field] == value).fillna(False)


def _with(fleet: Fleet, rows: pd.Series, **values: Any) -> Fleet:
    """Return the fleet with other values in some columns of the selected traces."""
    traces = fleet.traces.copy()
    for column, value in values.items():
        traces.loc[rows, column] = value
    return replace(fleet, traces=traces)


def _edited_json(value: Any, edit: Callable[[dict[str, Any]], None]) -> Any:
    if value is None:
        return None
    content = json.loads(value)
    edit(content)
    return json.dumps(content)


def null(flag: str, fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Set a field of the agent's traces to null where it is true. The JSON components still contain the value."""
    return _with(fleet, _mine(fleet, agent, since) & _is(fleet, flag, True), **{flag: None})


def scrub(fleet: Fleet, rows: pd.Series, field: str) -> Fleet:
    """Remove a field from its column and its JSON component in the selected traces."""
    column, keys = COMPONENTS[field]

    def without(content: dict[str, Any]) -> None:
        for key in keys:
            content.pop(key, None)

    components = [_edited_json(value, without) for value in fleet.traces.loc[rows, column]]
    return _with(fleet, rows, **{field: None, column: components})


def at_random(fleet: Fleet, share: float, seed: int = 1) -> pd.Series:
    """Return for each trace of the fleet whether it is in a random ``share``."""
    drawn = np.random.default_rng(seed).random(len(fleet.traces)) < share
    return pd.Series(drawn, index=fleet.traces.index)


def omit(field: str, bad: bool | None, share: float, fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Remove a field from a share of the agent's traces.

    :param bad: the bad value of the field if only traces with this value are changed, else None.
    """
    rows = _mine(fleet, agent, since) & at_random(fleet, share)
    if bad is not None:
        rows &= _is(fleet, field, bad)
    return scrub(fleet, rows, field)


def copy_record(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Copy the scores of one trace into half of the agent's traces."""
    scores = ["csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level"]
    rows = _mine(fleet, agent, since) & at_random(fleet, 0.5)
    rows &= fleet.traces[scores].notna().all(axis=1)
    first = fleet.traces.loc[rows, [*scores, "dma_results", "conscience_result"]].iloc[0]
    return _with(fleet, rows, **first)


def _with_deferrals(fleet: Fleet, agent: str, since: datetime, found: pd.Series, **values: Any) -> Fleet:
    """Return the fleet with new values in the selected deferrals of the agent."""
    names = set(fleet.traces.loc[fleet.traces["agent_id_hash"] == agent, "agent_name"].dropna())
    deferrals = fleet.deferrals.copy()
    rows = deferrals["agent_name"].isin(names) & (deferrals["created_at"] >= since) & found
    for column, value in values.items():
        deferrals.loc[rows, column] = value
    return replace(fleet, deferrals=deferrals)


def leave_deferrals_open(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Set the status of the agent's rejected and withdrawn deferrals to PENDING."""
    found = fleet.deferrals["status"].isin(["REJECTED", "WITHDRAWN"])
    pending = {"status": "PENDING", "resolved_at": pd.NaT, "resolution_summary": None}
    return _with_deferrals(fleet, agent, since, found, **pending)


def escalate_deferrals(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Set the status of the agent's resolved deferrals to ESCALATED."""
    return _with_deferrals(fleet, agent, since, fleet.deferrals["resolved_at"].notna(), status="ESCALATED")


def restart(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Give the agent's traces another agent id, with the old name and the old key."""
    return _with(fleet, _mine(fleet, agent, since), agent_id_hash=agent[::-1])


def restart_with_a_new_key(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Give the agent's traces another agent id, with the old name and a new key."""
    rows = _mine(fleet, agent, since)
    keys, key = fleet.public_keys, f"new-{agent}"
    mine = keys[keys["key_id"] == fleet.traces.loc[rows, "signature_key_id"].iloc[0]]
    all_keys = pd.concat([keys, mine.assign(key_id=key)], ignore_index=True)
    restarted = _with(fleet, rows, agent_id_hash=agent[::-1], signature_key_id=key)
    return replace(restarted, public_keys=all_keys)


def rename_phases(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Give each fragile trace of the agent a unique phase."""
    rows = _mine(fleet, agent, since) & _is(fleet, "idma_fragility_flag", True)
    return _with(fleet, rows, idma_phase=[f"phase {n}" for n in range(int(rows.sum()))])


def _with_copies(
    fleet: Fleet, agent: str, since: datetime, times: Callable[[pd.DataFrame], np.ndarray], seconds: int
) -> tuple[Fleet, pd.Series]:
    """Send each of an agent's traces several times. Return the fleet, and for each trace whether it is a copy.

    :param times: function that returns how often each trace is sent.
    :param seconds: time between the copies of a trace.
    """
    traces = fleet.traces
    mine = traces[_mine(fleet, agent, since)].sort_values("timestamp", kind="stable")
    copies = mine.loc[mine.index.repeat(times(mine))]
    nth = copies.groupby(level=0, sort=False).cumcount().to_numpy()
    copies = copies.reset_index(drop=True)
    copies["timestamp"] += pd.to_timedelta(nth * seconds, unit="s")
    again = nth > 0
    copies.loc[again, "trace_id"] = [f"{t}-{n}" for t, n in zip(copies["trace_id"][again], nth[again], strict=True)]
    in_time = (copies["timestamp"] <= traces["timestamp"].max()).to_numpy()
    others = traces.drop(mine.index)
    together = pd.concat([others, copies[in_time]], ignore_index=True)
    is_copy = pd.Series(np.concatenate([np.zeros(len(others), dtype=bool), again[in_time]]))
    longer = replace(fleet, traces=together)
    return _renumber(longer, _mine(longer, agent, since), int(mine["audit_sequence_number"].min())), is_copy


def send_again(times: int, fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Send one in ``times`` of the agent's good traces ``times`` times, as new traces 7 minutes apart. Omit all other
    good traces."""

    def often(mine: pd.DataFrame) -> np.ndarray:
        flags = mine[[*GOOD, *BAD]].fillna(False)
        good = flags[GOOD].all(axis=1) & ~flags[BAD].any(axis=1)
        drawn = np.random.default_rng(1).random(len(mine)) < 1 / times
        return np.where(good, np.where(drawn, times, 0), 1)

    return _with_copies(fleet, agent, since, often, 420)[0]


def fix_confidence(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Set the plausibility of each trace to 0.85 ± 0.03, in the column and in the JSON component."""
    rows = _mine(fleet, agent, since)
    values = np.round(np.random.default_rng(1).uniform(0.82, 0.88, int(rows.sum())), 4)

    def fixed(value: float) -> Callable[[dict[str, Any]], None]:
        def edit(content: dict[str, Any]) -> None:
            if "csdma_plausibility_score" in content:
                content["csdma_plausibility_score"] = value
            if isinstance(content.get("csdma"), dict):
                content["csdma"]["plausibility_score"] = value

        return edit

    results = [
        _edited_json(results, fixed(value))
        for results, value in zip(fleet.traces.loc[rows, "dma_results"], values.tolist(), strict=True)
    ]
    return _with(fleet, rows, csdma_plausibility_score=values.astype(str), dma_results=results)


def dilute(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Add ten trivial traces after each trace. Audit numbers are consecutive."""
    fleet, added = _with_copies(fleet, agent, since, lambda mine: np.full(len(mine), 11), 1)
    values: dict[str, Any] = {"selected_action": EXEMPT, "signature_verified": True}
    values |= dict.fromkeys(GOOD, True) | dict.fromkeys(BAD, False)
    return _with(fleet, added, **values, **dict.fromkeys(NO_PART_OF_TRIVIAL_ONES))


def _renumber(fleet: Fleet, rows: pd.Series, first: int) -> Fleet:
    numbers = fleet.traces.loc[rows].sort_values(["timestamp", "audit_sequence_number"], kind="stable")
    # A duplicate keeps the audit number of its first delivery.
    deliveries = numbers.groupby(["trace_id", "audit_sequence_number"], sort=False).ngroup()
    return _with(fleet, rows, audit_sequence_number=(first + deliveries).astype("Int64"))


def begin_again_at_1(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Discard the audit log, so that audit numbers begin again at 1."""
    return _renumber(fleet, _mine(fleet, agent, since), 1)


def replace_keys(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Use a new signing key each day."""
    rows = _mine(fleet, agent, since)
    days = fleet.traces.loc[rows, "timestamp"].dt.strftime("%m%d")
    return _with(fleet, rows, signature_key_id=[f"key-{agent}-{day}" for day in days])


def withhold(fleet: Fleet, agent: str, since: datetime) -> Fleet:
    """Omit overridden traces. The audit numbers of the remaining traces are consecutive."""
    first = int(fleet.traces.loc[_mine(fleet, agent, since), "audit_sequence_number"].min())
    withheld = _mine(fleet, agent, since) & _is(fleet, "action_was_overridden", True)
    shorter = replace(fleet, traces=fleet.traces[~withheld].reset_index(drop=True))
    return _renumber(shorter, _mine(shorter, agent, since), first)


MANIPULATIONS = (
    Manipulation("override nulled", "contradictory", partial(null, "action_was_overridden"), "contradicted_null"),
    Manipulation("override scrubbed", "contradictory", partial(omit, "action_was_overridden", True, 1), "unreported"),
    Manipulation("fragility nulled", "relapsing", partial(null, "idma_fragility_flag"), "unreported"),
    Manipulation("bad deferrals left open", "overconfident", leave_deferrals_open, "deferrals_left_open"),
    Manipulation("restart, same key", "drifting", restart, "shared_key", lasts=False),
    Manipulation("restart, new key", "drifting", restart_with_a_new_key, "new_identity", lasts=False),
    Manipulation("a phase per episode", "relapsing", rename_phases, "phase_churn"),
    Manipulation("ten trivial traces per real one", "out_of_tune", dilute, "volume_jump"),
    Manipulation("numbers begin again", "broken_chain", begin_again_at_1, "renumbered", lasts=False),
    Manipulation("a key a day", "healthy", replace_keys, "key_turnover"),
    Manipulation("copies of one record", "silent", copy_record, "repeated_records"),
    Manipulation("good traces twice", "renamed", partial(send_again, 2), "repeated_records"),
    Manipulation("good traces five times", "revoked_key", partial(send_again, 5), "repeated_records"),
    Manipulation("constant confidence", "unreplayable", fix_confidence, "constant_value"),
    Manipulation("withheld and renumbered", "overconfident", withhold, None),
    Manipulation("deferrals escalated", "stuck_fragile", escalate_deferrals, "deferrals_escalated"),
)

SCRUBBED = (
    Manipulation("overrides", "contradictory", partial(omit, "action_was_overridden", True, 0.6), "unreported"),
    Manipulation("fragility", "relapsing", partial(omit, "idma_fragility_flag", True, 0.6), "unreported"),
    Manipulation("failed actions", "overconfident", partial(omit, "action_success", False, 0.6), "unreported"),
    Manipulation("coherence", "out_of_tune", partial(omit, "coherence_passed", None, 0.6), "unreported"),
    Manipulation("plausibility", "drifting", partial(omit, "csdma_plausibility_score", None, 0.6), "unreported"),
    Manipulation("conscience", "stuck_fragile", partial(omit, "conscience_passed", None, 0.6), "unreported"),
    Manipulation("copies of one record", "unreplayable", copy_record, "repeated_records"),
    Manipulation("good traces twice", "renamed", partial(send_again, 2), "repeated_records"),
    Manipulation("constant confidence", "revoked_key", fix_confidence, "constant_value"),
    Manipulation("a key a day", "broken_chain", replace_keys, "key_turnover"),
)
"""Manipulations that must be found even in few traces. Omitted fields are removed from 60 % of all traces, or of the
traces with a bad value. Each manipulation is tried on agents of a different pathology."""
