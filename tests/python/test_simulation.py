"""Tests of the simulated fleets, of the sample, and of loading them into the source tables."""

from datetime import UTC, datetime
from hashlib import sha256

import psycopg
import pytest

from ciris_scoring.lab.simulation.fleet import simulate_fleet
from ciris_scoring.lab.simulation.load import TargetHoldsTraces, load_fleet
from ciris_scoring.lab.simulation.sample import load_sample, sample_fleet
from ciris_scoring.lab.simulation.text_formats import copy_text
from conftest import Database

END = datetime(2026, 6, 15, tzinfo=UTC)
SMALL = {"agents": 5, "days": 9, "traces_per_day": 10, "seed": 3, "end": END}


def test_a_table_that_holds_traces_is_refused_before_anything_is_written(database: Database) -> None:
    with database.connect() as connection:
        load_fleet(connection, simulate_fleet(**SMALL))
        connection.execute("delete from cirislens.wbd_deferrals")
        n = connection.execute("select count(*) from cirislens.covenant_traces").fetchone()[0]
        with pytest.raises(TargetHoldsTraces) as refusal:
            load_sample(connection)
        assert (refusal.value.table, refusal.value.n) == ("cirislens.covenant_traces", n)
        assert connection.execute("select count(*) from cirislens.wbd_deferrals").fetchone() == (0,)


def test_a_load_that_fails_leaves_nothing_behind(database: Database) -> None:
    broken = simulate_fleet(**SMALL)
    broken.traces.loc[len(broken.traces) - 1, "signature_key_id"] = "x" * 65
    with database.connect() as connection:
        with pytest.raises(psycopg.errors.StringDataRightTruncation):
            load_fleet(connection, broken)
        assert connection.execute("select to_regnamespace('cirislens')").fetchone() == (None,)


DIGESTS = {
    "traces": "1f2cb50ff29d6ca15e170c200583a1c13b4a95de1e01634d5eacbdbc84e0e823",
    "deferrals": "23f91cf943a18f3b606ffee837e0e7475b33b80025f78f5c27cd75b757cc569d",
    "public_keys": "26d7526c355ad94f1e9696d69b6bf670263c9e3e68c51a0b52283e69860306f4",
    "batches": "8a114644294d5c349124d8d740f1914fddf0b823d46f613f14332281c2699cae",
}


def test_the_sample_never_changes() -> None:
    """The documents show the scores of the sample. Simulator and numpy must give the same bytes in every version."""
    fleet = sample_fleet()
    found = {table: sha256("".join(copy_text([getattr(fleet, table)])).encode()).hexdigest() for table in DIGESTS}
    assert found == DIGESTS
