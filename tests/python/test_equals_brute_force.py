"""The whole pipeline on a real PostgreSQL against an independent implementation of scoring.md, to 1e-9."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ciris_scoring.trial.embedded import SCHEMA, Server
from ciris_scoring.trial.simulation.sample import load_sample, sample_info
from conftest import Database, fresh_database
from nasty_fleet import START, nasty_fleet
from pipeline import create_loose_sources, differences_from_brute_force, insert_rows, score

OTHER_PARAMETERS = {
    "lambda_c": 2,
    "mu_c": 7.5,
    "integrity_floor": 0.1,
    "require_registered_keys": False,
    "replay_sample_per_period": 4,
    "replay_sample_salt": "it's salted",
    "replay_min_sample": 10,
    "steady_days": 10,
    "mttr_scale_hours": 24,
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


def load(database: Database, seed: int, **size: int) -> None:
    with database.connect() as connection:
        create_loose_sources(connection)
        for table, rows in nasty_fleet(seed, **size).items():
            insert_rows(connection, table, rows)
        connection.execute(
            'insert into cirislens.covenant_traces (agent_id_hash, "timestamp")'
            " values ('a', 'infinity'), ('a', '-infinity')"
        )
        # Every way in which ids are refused, together with a blank name.
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


def sample_differences(database: Database, *days_before: int) -> list[str]:
    as_of = datetime.fromisoformat(sample_info()["as_of"])
    as_ofs = [as_of - timedelta(days=d) for d in days_before]
    with database.connect() as connection:
        return differences_from_brute_force(connection, SCHEMA, as_of, as_ofs=as_ofs)


def test_sample(scored_sample: Database) -> None:
    assert sample_differences(scored_sample, 0, 1, 7, 20, 31, 40, 44) == []


def test_sample_on_the_oldest_postgresql(system_postgres: Server, tmp_path: Path) -> None:
    with fresh_database(system_postgres, tmp_path) as database:
        with database.connect() as connection:
            load_sample(connection)
        score(database.profiles_dir, sample_info()["as_of"])
        assert sample_differences(database, 0, 20, 44) == []


def test_nasty_days(database: Database) -> None:
    load(database, 1, days=40, agents=7, traces_per_day=9)
    as_of = START + timedelta(days=40)
    score(database.profiles_dir, as_of)
    with database.connect() as connection:
        assert differences_from_brute_force(connection, SCHEMA, as_of) == []


def test_nasty_hours(database: Database) -> None:
    load(database, 3, days=9)
    as_of = START + timedelta(days=8, hours=17)
    score(database.profiles_dir, as_of, {"ciris_scoring_period": "hour"})
    with database.connect() as connection:
        as_ofs = [as_of - timedelta(hours=h) for h in (0, 1, 5, 24, 30, 100, 150, 170, 190)]
        assert differences_from_brute_force(connection, SCHEMA, as_of, period="hour", as_ofs=as_ofs) == []


def test_other_parameters(database: Database) -> None:
    load(database, 4)
    as_of = START + timedelta(days=12)
    score(database.profiles_dir, as_of, {"ciris_scoring_parameters": OTHER_PARAMETERS})
    with database.connect() as connection:
        assert differences_from_brute_force(connection, SCHEMA, as_of, parameters=OTHER_PARAMETERS) == []


def test_time_zone_with_a_clock_change(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """New York changed its clocks on 2026-03-08, in the middle of this fleet's life."""
    load(database, 5)
    as_of = datetime(2026, 3, 13, tzinfo=UTC)
    assert START < datetime(2026, 3, 8, tzinfo=UTC) < as_of
    monkeypatch.setenv("PGTZ", "America/New_York")
    score(database.profiles_dir, as_of)
    with database.connect() as connection:
        assert differences_from_brute_force(connection, SCHEMA, as_of) == []
