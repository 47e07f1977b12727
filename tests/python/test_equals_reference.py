"""Tests that the whole pipeline on PostgreSQL equals the reference implementation of scoring.md to 1e-9."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import create_loose_sources, differences_from_reference, insert_rows, load_rows, score

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy warns of overflow and 0/0

OTHER_PARAMETERS = {
    "lambda_c": 2,
    "mu_c": 7.5,
    "integrity_floor": 0.1,
    "require_registered_keys": False,
    "replay_sample_per_period": 4,
    "replay_sample_salt": "it's salted",
    "replay_min_sample": 10,
    "steady_days": 10,
    "mttr_scale_hours": 3,
    "drift_min_sample": 5,
    "decay_per_day": 0.1,
    "w_corroborated": 2,
    "w_uncorroborated": 0.75,
    "corroboration_tolerance": 0.05,
    "min_traces": 10,
    "warm_up_days": 2,
    "weight_c": 0.6,
    "weight_i_int": 0.1,
    "weight_r": 0.1,
    "weight_i_inc": 0.1,
    "weight_s": 0.1,
}

LEAST: dict[str, Any] = {
    "lambda_c": 2,
    "mu_c": 5,
    "integrity_floor": 0.1,
    "replay_min_sample": 1,
    "mttr_scale_hours": 0.001,
    "norm_k": 0.1,
    "norm_x0": 0,
    "drift_pseudo_count": 0.001,
    "drift_min_sample": 1,
    "decay_per_day": 0.02,
    "w_corroborated": 0.5,
    "w_uncorroborated": 2,
    "min_traces": 1,
}
MOST: dict[str, Any] = {
    "lambda_c": 10,
    "mu_c": 20,
    "integrity_floor": 1,
    "replay_enabled": False,
    "mttr_scale_hours": 8760,
    "norm_k": 50,
    "norm_x0": 1,
    "drift_pseudo_count": 10,
    "drift_min_sample": 1_000_000,
    "decay_per_day": 0.1,
    "w_corroborated": 2,
    "w_uncorroborated": 0.5,
}
"""Parameters at the ends of their ranges, which give extreme confidence bounds."""


def load(database: Database, seed: int, **size: int) -> None:
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(seed, **size))
        connection.execute(
            'insert into cirislens.covenant_traces (agent_id_hash, "timestamp")'
            " values ('a', 'infinity'), ('a', '-infinity')"
        )
        # Rows with ids that are refused for every reason, together with a blank name.
        connection.execute(
            "alter table cirislens.covenant_traces alter trace_id type text, alter agent_id_hash type text,"
            " alter agent_id_hash drop not null"
        )
        connection.execute(
            """
            insert into cirislens.covenant_traces (agent_id_hash, trace_id, agent_name, "timestamp")
            select agent, trace, ' ', %s
            from unnest(array['a', ' ', null, repeat('a', 513)]) as agents (agent)
            cross join unnest(array['t', ' ', repeat('t', 513)]) as traces (trace)
            """,
            [START + timedelta(hours=1)],
        )


def test_sample_equals_reference(scored_sample: Database) -> None:
    as_of = datetime.fromisoformat(SAMPLE["as_of"])
    as_ofs = [as_of - timedelta(days=days) for days in (0, 1, 7, 20, 31, 40, 44)]
    with scored_sample.connect() as connection:
        assert differences_from_reference(connection, SCHEMA, as_of, as_ofs=as_ofs) == []


def test_random_fleet_by_day_equals_reference(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks in New York changed on 2026-03-08, within the history of this fleet."""
    load(database, 1, days=40, agents=7, traces_per_day=9)
    as_of = START + timedelta(days=40)
    monkeypatch.setenv("PGTZ", "America/New_York")
    score(database.profiles_dir, as_of, {"ciris_scoring_parameters": MOST})
    with database.connect() as connection:
        assert differences_from_reference(connection, SCHEMA, as_of, parameters=MOST) == []


def test_random_fleet_by_hour_equals_reference(database: Database) -> None:
    load(database, 3, days=9)
    as_of = START + timedelta(days=8, hours=17)
    score(database.profiles_dir, as_of, {"ciris_scoring_period": "hour", "ciris_scoring_parameters": LEAST})
    with database.connect() as connection:
        as_ofs = [as_of - timedelta(hours=h) for h in (0, 1, 5, 24, 30, 100, 150, 170, 190)]
        wrong = differences_from_reference(
            connection, SCHEMA, as_of, period="hour", as_ofs=as_ofs, parameters=LEAST
        )
    assert wrong == []


# --- edges of alerts and of the steady score -------------------------------------------------------------------------

EDGE = datetime(2026, 6, 1, tzinfo=UTC)
DAY, HOUR, MINUTE, INSTANT = (timedelta(**{unit: 1}) for unit in ("days", "hours", "minutes", "microseconds"))
EDGE_PARAMETERS = {
    "steady_days": 20,  # longer than one window and shorter than the other
    "falling_threshold": 0,
    "falling_z_alone": 0.2,
    "falling_z_together": 10,
    "warm_up_days": 0,
    "min_traces": 10,
    "require_registered_keys": False,
    "replay_min_sample": 1000,
}


def good_trace(agent: str, at: datetime, number: int, **columns: Any) -> dict[str, Any]:
    return {
        "trace_id": f"{agent} {number}",
        "thought_id": "a",
        "agent_id_hash": agent,
        "agent_name": agent,
        "timestamp": at,
        "signature": "a",
        "signature_verified": True,
        "audit_entry_hash": "a",
        "audit_sequence_number": number,
        "csdma_plausibility_score": 1,
        "dsdma_domain_alignment": 1,
        "idma_k_eff": 1,
        "idma_fragility_flag": None,
        "conscience_passed": True,
        "coherence_level": 1,
        "entropy_level": 0,
        "coherence_passed": None,
        "selected_action": "SPEAK",
        "action_success": True,
    } | columns


def worsening(agent: str, n_incomplete: int, n_signals: int, n_incoherent: int) -> list[dict[str, Any]]:
    """Return five traces a day, 35 in each window of 7 days, that get worse in the last window.

    :param n_incomplete: traces of the last window that lack a field.
    :param n_signals: signals before the last window; in it each trace is a signal.
    :param n_incoherent: incoherent signals of the last window.
    """
    rows = []
    for i in range(5 * 15):
        at = EDGE - 15 * DAY + i * DAY / 5
        left = 5 * 15 - i  # number in the last window, from 35 down
        rows.append(
            good_trace(
                agent,
                at,
                i + 1,
                idma_k_eff=None if left <= n_incomplete else 1,
                coherence_passed=left > n_incoherent if left <= 35 + n_signals else None,
            )
        )
    return rows


def eventful(
    agent: str, episodes: list[tuple[datetime, timedelta]], deferrals: list[tuple[datetime, int, str]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a trace a day for 140 days, with episodes (end, duration) and deferrals (time, number, status)."""
    moments = [(EDGE - 140 * DAY + i * DAY, None) for i in range(140)]
    for end, length in episodes:
        moments += [(end - length, True), (end, False)]
    moments.sort(key=lambda moment: moment[0])
    numbers = count(1)
    traces = [
        good_trace(agent, at, next(numbers), coherence_passed=True, idma_fragility_flag=flag)
        for at, flag in moments
    ]
    judged = [
        {
            "deferral_id": uuid4(),
            "agent_id": agent,
            "agent_name": agent,
            "status": status,
            "resolution_summary": "a",
            "resolved_at": at,
            "created_at": at,
        }
        for at, n, status in deferrals
        for _ in range(n)
    ]
    return traces, judged


def test_edges_of_alerts_and_of_steady_days_equal_reference(database: Database) -> None:
    """The comparison of events begins on day 132. The shortest recent time is 4 days.

    A component that alone loses less than 0.02 raises no alert. `falling` compares the lower bound of the earlier S
    with the upper bound of the later one; with the opposite bounds, 8 incoherent signals of 35 would raise it.
    """
    fleet = {}
    for name, edge in {"the 132nd day": EDGE - 132 * DAY, "the 4th day": EDGE - 4 * DAY}.items():
        for side, at, step in (("at", edge, HOUR), ("before", edge - INSTANT, -HOUR)):
            agent = f"deferrals {side} {name}"
            fleet[agent] = eventful(agent, [], [(at, 4, "RESOLVED"), (EDGE - DAY, 12, "REJECTED")])
            agent = f"episodes {side} {name}"
            fleet[agent] = eventful(
                agent, [*((at + i * step, MINUTE) for i in range(6)), (EDGE - DAY, 5 * DAY)], []
            )
    for name, edge in {"the 20th day": EDGE - 20 * DAY, "the 30th day": EDGE - 30 * DAY}.items():
        for side, at in (("at", edge), ("before", edge - INSTANT)):
            agent = f"steady {side} {name}"
            fleet[agent] = eventful(
                agent,
                [(at, 3 * HOUR), (EDGE - DAY, HOUR)],
                [(at, 1, "REJECTED"), (EDGE - DAY, 3, "RESOLVED")],
            )
    # Many equal episodes keep the variation in the fleet small.
    fleet["alike"] = eventful("alike", [(EDGE - i * HOUR, MINUTE) for i in range(1, 600)], [])
    for n in (6, 7):  # of 350 fields; the losses are 0.0173 and 0.0202
        fleet[f"incomplete {n}"] = (worsening(f"incomplete {n}", n, 0, 0), [])
    for signals, n in ((4, 8), (4, 12), (16, 8), (16, 12)):
        agent = f"after {signals} signals {n} incoherent"
        fleet[agent] = (worsening(agent, 0, signals, n), [])

    with database.connect() as connection:
        create_loose_sources(connection)
        for traces, deferrals in fleet.values():
            insert_rows(connection, "covenant_traces", traces)
            insert_rows(connection, "wbd_deferrals", deferrals)
    score(database.profiles_dir, EDGE, {"ciris_scoring_parameters": EDGE_PARAMETERS})
    with database.connect() as connection:
        alerts = {
            (agent, window): message
            for agent, window, message in connection.execute(
                f"select agent_id_hash, window_days, message from {SCHEMA}.fct_capacity_alerts"
                " where kind in ('episode', 'falling') and as_of = %s",
                [EDGE],
            )
        }
        steady = {
            row[:2]: row[2:]
            for row in connection.execute(
                "select agent_id_hash, window_days, n_steady_episodes, mttr_hours_steady, n_steady_deferrals,"
                f" q_deferral_steady from {SCHEMA}.fct_capacity_scores"
                " where as_of = %s and agent_id_hash like 'steady%%'",
                [EDGE],
            )
        }
        wrong = differences_from_reference(
            connection, SCHEMA, EDGE, as_ofs=[EDGE, EDGE - 7 * DAY], parameters=EDGE_PARAMETERS
        )
    assert wrong == []
    of_events = (
        "deferrals at the 132nd day",
        "deferrals before the 4th day",
        "episodes at the 132nd day",
        "episodes before the 4th day",
        "episodes at the 4th day",  # seven in four days, none before
        "alike",
    )
    assert alerts.keys() == {
        *((agent, window) for agent in of_events for window in (7, 30)),
        ("incomplete 7", 7),
        ("after 4 signals 12 incoherent", 7),
        ("after 16 signals 12 incoherent", 7),
    }
    assert alerts["deferrals at the 132nd day", 7] == (
        "Deferrals are judged worse since about 2026-04-20: a value of 0.000 on average, in the 90 days before 1.000."
    )
    assert alerts["episodes at the 132nd day", 30] == (
        "Fragile episodes last longer since about 2026-04-20: typically 120.0 h, in the 90 days before 0.0 h."
    )
    both, last = (2, 2.0, 4, 0.75), (1, 1.0, 3, 1.0)
    assert steady == {
        ("steady at the 20th day", 7): both,
        ("steady before the 20th day", 7): last,
        ("steady at the 30th day", 7): last,
        ("steady before the 30th day", 7): last,
        ("steady at the 20th day", 30): both,
        ("steady before the 20th day", 30): both,
        ("steady at the 30th day", 30): both,
        ("steady before the 30th day", 30): last,
    }
