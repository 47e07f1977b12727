"""Tests that the whole pipeline on PostgreSQL equals the reference implementation of scoring.md to 1e-9."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.project_files import copy_project
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import differences_from_reference, insert_rows, load_rows, score
from reference.record import Window
from test_constants import definitions

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
    "silent_min_traces": 5,
    "warm_up_days": 2,
    "weight_c": 0.6,
    "weight_i_int": 0.1,
    "weight_r": 0.1,
    "weight_i_inc": 0.1,
    "weight_s": 0.1,
}


def ends(which: str) -> dict[str, Any]:
    """Return the scoring parameters at an end of their ranges, which give extreme confidence bounds.

    :param which: minimum or maximum.
    """
    return {name: of[which] for name, of in definitions().items() if which in of and name not in FIXED}


FIXED = {
    *("weight_c", "weight_i_int", "weight_r", "weight_i_inc", "weight_s"),  # their sum is 1
    *("min_traces", "unsafe_entropy_threshold", "corroboration_tolerance"),
}
LEAST, MOST = ends("minimum") | {"min_traces": 1}, ends("maximum") | {"replay_enabled": False}


def wrong(database: Database, seed: int, parameters: Mapping[str, Any], period: str = "day", **size: int) -> list[str]:
    """Score a random fleet and return its differences from the reference implementation. Hourly scores are compared
    only at some as-ofs."""
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(seed, **size))
        connection.execute(
            'insert into cirislens.covenant_traces (agent_id_hash, "timestamp")'
            " values ('a', 'infinity'), ('a', '-infinity')"
        )
        if period == "day":
            # The only trace of agent `lone` is years old, so the agent has scores only while a window contains it.
            connection.execute(
                'insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp", idma_fragility_flag)'
                " values ('lone', 'first', '2020-01-01Z', true)"
            )
        # Rows with all combinations of a valid, blank, missing and too long agent id, and a valid, blank and too long
        # trace id. The name is blank.
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
    as_of, as_ofs = START + timedelta(days=size["days"]), None
    if period == "hour":
        as_of -= timedelta(hours=7)
        as_ofs = [as_of - timedelta(hours=h) for h in (0, 1, 5, 24, 30, 100, 150, 170, 190)]
    variables = {"ciris_scoring_parameters": parameters, "ciris_scoring_period": period}
    score(database.profiles_dir, as_of, variables)
    with database.connect() as connection:
        return differences_from_reference(connection, as_of, period=period, as_ofs=as_ofs, parameters=parameters)


def wrong_sample(scored_sample: Database) -> list[str]:
    """Return the differences of the scored sample from the reference implementation, at some as-ofs."""
    as_of = datetime.fromisoformat(SAMPLE["as_of"])
    as_ofs = [as_of - timedelta(days=days) for days in (0, 1, 7, 20, 31, 40, 44)]
    with scored_sample.connect() as connection:
        return differences_from_reference(connection, as_of, as_ofs=as_ofs)


def test_sample_equals_reference(scored_sample: Database) -> None:
    assert wrong_sample(scored_sample) == []


def test_random_fleet_by_day_equals_reference(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks in New York changed on 2026-03-08, within the history of this fleet."""
    monkeypatch.setenv("PGTZ", "America/New_York")
    assert wrong(database, 1, MOST, days=40, agents=7, traces_per_day=9) == []


@pytest.mark.slow
def test_random_fleet_by_hour_equals_reference(database: Database) -> None:
    assert wrong(database, 3, LEAST, "hour", days=9) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 4 + int(os.environ.get("FLEETS", "1"))))
def test_random_fleet_with_other_parameters_equals_reference(database: Database, seed: int) -> None:
    """The variable FLEETS sets the number of fleets (`make soak`). Every second fleet is scored by hour."""
    assert wrong(database, seed, OTHER_PARAMETERS, ("day", "hour")[seed % 2], days=12) == []


@pytest.mark.slow
def test_scores_of_other_windows_equal_reference_in_increments(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alert `broken_chain` reads 150 days for a window of 60 days, more than the 132 days of the steady score.

    Audit numbers of one agent are missing on 16 days that only the alert reads, and on 12 days of the window. Another
    agent has its only trace within the window of 150 days, but before the 132 days of the steady score.
    """
    windows = (Window(3, 5, 40), Window(60, 30, 10), Window(150, 30, 10))
    copy_project(REPOSITORY, tmp_path / "project")
    seed = tmp_path / "project/seeds/scoring_windows.csv"
    heading = seed.read_text().splitlines()[0]
    seed.write_text("\n".join([heading, *(",".join(map(str, window)) for window in windows)]) + "\n")
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    end = START + timedelta(days=170)
    gaps = [day < 16 or 100 <= day < 112 for day in range(170) for _ in range(3)]
    traces = [
        {
            "agent_id_hash": "gaps",
            "trace_id": str(n),
            "timestamp": START + n * timedelta(hours=8),
            "audit_sequence_number": number,
        }
        for n, number in enumerate(itertools.accumulate(1 + gap for gap in gaps))
    ]
    early = traces[0] | {"agent_id_hash": "early", "timestamp": START + timedelta(days=20)}
    parameters = {"chain_gap_z": 2}
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(5, agents=2, days=170, traces_per_day=3))
        insert_rows(connection, "covenant_traces", [*traces, early])
        for as_of in (end - timedelta(days=20), end):
            variables = {"ciris_scoring_parameters": parameters}
            score(database.profiles_dir, as_of, variables, project_dir=tmp_path / "project")
        as_ofs = [end - timedelta(days=days) for days in (*range(26), 109, 167)]
        wrong = differences_from_reference(connection, end, as_ofs=as_ofs, parameters=parameters, windows=windows)
    assert wrong == []
