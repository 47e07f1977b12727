"""Tests of the simulated fleets, of the sample, and of loading them into the source tables."""

from datetime import UTC, datetime

import psycopg
import pytest

from ciris_scoring.errors import CirisError
from ciris_scoring.lab.simulation.fleet import simulate_fleet
from ciris_scoring.lab.simulation.load import load_fleet
from ciris_scoring.lab.simulation.sample import load_sample
from conftest import Database

END = datetime(2026, 6, 15, tzinfo=UTC)
SMALL = {"agents": 5, "days": 9, "traces_per_day": 10, "seed": 3, "end": END}


def test_a_table_that_holds_traces_is_refused_before_anything_is_written(database: Database) -> None:
    with database.connect() as connection:
        load_fleet(connection, simulate_fleet(**SMALL))
        connection.execute("delete from cirislens.wbd_deferrals")
        n = connection.execute("select count(*) from cirislens.covenant_traces").fetchone()[0]
        with pytest.raises(CirisError, match=rf"schema cirislens already holds {n:,} traces"):
            load_sample(connection)
        assert connection.execute("select count(*) from cirislens.wbd_deferrals").fetchone() == (0,)


def test_a_load_that_fails_leaves_nothing_behind(database: Database) -> None:
    broken = simulate_fleet(**SMALL)
    broken.traces.loc[len(broken.traces) - 1, "signature_key_id"] = "x" * 65
    with database.connect() as connection:
        with pytest.raises(psycopg.errors.StringDataRightTruncation):
            load_fleet(connection, broken)
        assert connection.execute("select to_regnamespace('cirislens')").fetchone() == (None,)
