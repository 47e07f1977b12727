"""Tests of the pipeline against the reference implementation with fleets that Hypothesis generates.

A trace is normal except for its random properties: time since the previous trace, audit number and unusual values. A
run scores many agents with few traces each, and a difference names its agent. FLEETS sets the number of random fleets
(`make soak`).
"""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from cases.notation import T, ago, deferral, key, traces
from ciris_scoring.lab.embedded import SCHEMA, Server
from conftest import fresh_database
from pipeline import differences_from_reference, load_rows, score
from test_equals_reference import OTHER_PARAMETERS

FLEETS = int(os.environ.get("FLEETS", "0"))
PARAMETERS = OTHER_PARAMETERS | {
    "min_traces": 4,
    "drift_min_sample": 3,
    "replay_min_sample": 4,
    "silent_min_traces": 5,
}
"""Parameters with which a few traces are enough for a score."""
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
INSTANT = timedelta(microseconds=1)
FIRST = T - timedelta(days=20)

STEPS = {
    "day": [timedelta(), INSTANT, DAY - INSTANT, DAY, 7 * DAY, HOUR, 2 * DAY, 3 * HOUR, 30 * HOUR],
    "hour": [timedelta(), INSTANT, HOUR - INSTANT, HOUR, 2 * HOUR, timedelta(minutes=7), 20 * HOUR],
}
"""Time since the agent's previous trace. First traces are at the start of a period, so many traces are at period
ends."""

BEGINNINGS = {
    "day": [FIRST, FIRST + DAY, ago(14), ago(9), ago(7), ago(3)],
    "hour": [ago(7), ago(3), ago(2), ago(0, 5)],
}

ODD: list[dict[str, Any]] = [
    *({"agent_name": name} for name in ("Ann", "Bea", None, " ")),
    *({"signature_verified": value} for value in (False, None)),
    *({"signature": None}, {"audit_entry_hash": None}, {"thought_id": " "}, {"selected_action": ""}),
    *({"signature_key_id": value} for value in ("revoked", "expired", "nowhere", None)),
    *({"idma_fragility_flag": True, "idma_phase": mode} for mode in ("chaos", "rigidity", None)),
    *({"idma_fragility_flag": value} for value in (None, True)),
    *({"conscience_passed": value} for value in (False, None)),
    *({"action_was_overridden": value} for value in (True, None)),
    *({"coherence_passed": value} for value in (False, None)),
    *({"coherence_level": value} for value in (0.5, 0.6, 0.6001, 0.7, 0, 1, 1.1)),
    *({"csdma_plausibility_score": value} for value in (0, 0.1, 0.09, 0.3, 0.9, None, -1)),
    *({"dsdma_domain_alignment": value} for value in (0.1, 0.7, None)),
    *({"entropy_level": level, "action_success": False} for level in (0.5, 0.5001, 1)),
    *({"action_success": value} for value in (False, None)),
    *({"thought_start": None}, {"action_result": None}, {"action_result": {"audit_entry_hash": "other"}}),
    {"conscience_result": {"entropy_passed": True, "entropy_score": 0.4, "entropy_threshold": 0.4}},
    {"conscience_result": {"entropy_passed": True, "conscience_passed": False}},
]
NUMBERS = [1, 1, 1, 1, 1, 2, 0, -1, None]
"""Increments of the audit number; None for a trace without a number."""


@st.composite
def agents(draw: st.DrawFn, period: str) -> list[dict[str, Any]]:
    """Generate the traces of one agent. Some are sent twice."""
    at, number, rows = draw(st.sampled_from(BEGINNINGS[period])), 1, []
    drawn = st.tuples(
        st.sampled_from(STEPS[period]),
        st.sampled_from(NUMBERS),
        st.lists(st.sampled_from(ODD), max_size=3),
        st.sampled_from([False] * 12 + [True]),
    )
    for step, more, odd, again in draw(st.lists(drawn, min_size=1, max_size=24)):
        at, number = at + step, number + (more or 0)
        columns = {name: value for one in odd for name, value in one.items()}
        [row] = traces(at, audit_sequence_number=None if more is None else number, **columns)
        row["trace_id"] = f"trace-{len(rows)}"
        rows += [row, {**row, "timestamp": at + 5 * HOUR, "signature": "again"}] if again else [row]
    return [row for row in rows if row["timestamp"] < T + 2 * DAY]


@st.composite
def fleets(draw: st.DrawFn, period: str) -> dict[str, list[dict[str, Any]]]:
    """Generate traces, deferrals and keys of a fleet."""
    rows = []
    for number, found in enumerate(draw(st.lists(agents(period), min_size=25, max_size=40))):
        for row in found:
            row["agent_id_hash"] = f"{number:016x}"
            row.setdefault("agent_name", f"name {number}")
            del row["agent"]
            rows.append(row)
    assume(len(rows) > 200)  # Hypothesis first tries the smallest fleet
    moments = st.sampled_from([ago(13), ago(7), ago(7, us=1), ago(3), ago(2), ago(1), ago(us=1), ago(), None])
    drawn = st.tuples(
        st.integers(0, 24),
        moments,
        st.sampled_from(["RESOLVED", "ESCALATED", " rejected ", "PENDING", "LOST"]),
        st.sampled_from(["done", " ", None]),
        moments,
    )
    deferrals = [
        deferral(created, status, resolution_summary=summary, resolved_at=resolved, agent_id=f"{agent:016x}")
        for agent, created, status, summary, resolved in draw(st.lists(drawn, min_size=10, max_size=60))
    ]
    for number, row in enumerate(deferrals):
        row["deferral_id"] = f"00000000-0000-0000-0000-{number:012d}"
        del row["agent"]
    keys = [key("key"), key("revoked", revoked_at=ago(7)), key("expired", expires_at=ago(3, us=1))]
    return {"covenant_traces": rows, "wbd_deferrals": deferrals, "covenant_public_keys": keys}


@pytest.mark.parametrize("period", ["day", "hour"])
def test_generated_fleets_equal_reference(embedded_postgres: Server, period: str) -> None:
    length = DAY if period == "day" else HOUR

    @settings(
        max_examples=max(FLEETS, 1),
        derandomize=not FLEETS,
        phases=[
            Phase.generate
        ],  # no shrinking: each attempt is a run, and a difference already names its agent
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(fleets(period))
    def equals(fleet: dict[str, list[dict[str, Any]]]) -> None:
        as_ofs = [T - n * length for n in (0, 1, 2, 7)]
        wrong = differences(embedded_postgres, fleet, period, as_ofs)
        assert wrong == [], [row for row in fleet["covenant_traces"] if row["agent_id_hash"] in wrong[0]]

    equals()


def differences(
    server: Server, fleet: dict[str, list[dict[str, Any]]], period: str, as_ofs: list[datetime]
) -> list[str]:
    """Return all differences between a run over the fleet and the reference implementation."""
    with tempfile.TemporaryDirectory() as folder, fresh_database(server, Path(folder)) as database:
        with database.connect() as connection:
            load_rows(connection, fleet)
        variables = {"ciris_scoring_parameters": PARAMETERS, "ciris_scoring_period": period}
        score(database.profiles_dir, T, variables)
        with database.connect() as connection:
            return differences_from_reference(
                connection, SCHEMA, T, period=period, as_ofs=as_ofs, parameters=PARAMETERS
            )
