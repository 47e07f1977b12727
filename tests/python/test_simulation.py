"""Tests of the simulator, the sample, and loading both into the source tables."""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256

import pandas as pd
import psycopg
import pytest
from psycopg import sql

from ciris_scoring.basics.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation import fleet_roster, simulate_fleet, stream_fleet
from ciris_scoring.lab.simulation.load import TargetHoldsTraces, load_fleet
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample, sample_fleet
from ciris_scoring.lab.simulation.text_formats import copy_text
from conftest import Database

END = datetime(2026, 6, 15, tzinfo=UTC)
SMALL = {"agents": 5, "days": 9, "traces_per_day": 10, "seed": 3, "end": END}


@pytest.fixture
def pg_connection(database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        yield connection


# --- reproducibility -------------------------------------------------------------------------------------------------


def test_same_arguments_give_the_same_fleet_and_another_seed_another_one() -> None:
    first, second = simulate_fleet(**SMALL), simulate_fleet(**SMALL)
    other = simulate_fleet(**{**SMALL, "seed": 4})
    for table in ("traces", "deferrals", "public_keys", "batches"):
        pd.testing.assert_frame_equal(getattr(first, table), getattr(second, table))
    assert not set(first.traces.trace_id) & set(other.traces.trace_id) - {""}
    assert not set(first.traces.agent_id_hash) & set(other.traces.agent_id_hash)


@pytest.mark.parametrize("rows_per_chunk", [1, 120, 10**9])
def test_chunks_do_not_change_the_rows(rows_per_chunk: int) -> None:
    chunks = list(stream_fleet(**SMALL, rows_per_chunk=rows_per_chunk).traces)
    whole = simulate_fleet(**SMALL).traces
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), whole)
    assert len(chunks) == {1: 9, 10**9: 1}.get(rows_per_chunk, len(chunks))
    assert rows_per_chunk != 120 or 1 < len(chunks) < 9


def test_an_agent_does_not_depend_on_the_others() -> None:
    whole = simulate_fleet(**SMALL).traces
    fewer = simulate_fleet(**{**SMALL, "agents": 3}).traces
    kept = whole[whole.agent_id_hash.isin(fewer.agent_id_hash)].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, fewer)


# --- content of the fleet --------------------------------------------------------------------------------------------


def test_twelve_agents_show_every_named_pathology() -> None:
    assert list(fleet_roster(12, 7).pathology) == [
        "healthy", "healthy", "drifting", "broken_chain", "revoked_key", "stuck_fragile",
        "relapsing", "overconfident", "renamed", "new", "silent", "contradictory",
    ]  # fmt: skip
    assert list(fleet_roster(30, 7).pathology[14:16]) == ["healthy", "healthy"]


WORST = {
    "drifting": ("delta_drift", max),
    "broken_chain": ("chain_gaps", max),
    "revoked_key": ("key_rate", min),
    "stuck_fragile": ("mttr_hours", max),
    "relapsing": ("rho_regression", max),
    "overconfident": ("ece", max),
    "renamed": ("d_identity", max),
    "contradictory": ("k_contradiction", max),
    "out_of_tune": ("sigma", min),
    "unreplayable": ("i_replay", min),
}
"""Component in which each pathological agent is the worst of the sample."""


def test_every_pathology_shows_in_the_scores_of_the_sample(scored_sample: Database) -> None:
    roster = fleet_roster(SAMPLE["agents"], SAMPLE["seed"]).set_index("agent_id_hash").pathology
    newest = f"window_days = 7 and as_of = '{SAMPLE['as_of']}'"
    final = f"{newest} and score_status = 'final'"
    with scored_sample.connect() as connection:
        found = {}
        for pathology, (component, worst) in WORST.items():
            query = f"select {component}, agent_id_hash from {SCHEMA}.fct_capacity_scores where {final}"
            found[pathology] = roster[worst(connection.execute(query).fetchall())[1]]
        assert found == {pathology: pathology for pathology in WORST}
        status = dict(
            connection.execute(
                f"select agent_id_hash, score_status from {SCHEMA}.fct_capacity_scores where {newest}"
            ).fetchall()
        )
        assert {roster[agent] for agent in status if status[agent] == "provisional"} == {"new"}
        silent = f"select agent_id_hash from {SCHEMA}.fct_capacity_alerts where kind = 'silent' and {newest}"
        assert {roster[agent] for (agent,) in connection.execute(silent)} == {"silent"}
        healthy = f"select agent_id_hash from {SCHEMA}.fct_capacity_alerts where {newest}"
        assert "healthy" not in {roster[agent] for (agent,) in connection.execute(healthy)}


# --- the database ----------------------------------------------------------------------------------------------------


def content(connection: psycopg.Connection, schema: str, table: str) -> tuple:
    """Return number of rows and a digest of all values."""
    query = 'select count(*), md5(string_agg(t::text, chr(10) order by t::text collate "C")) from {} t'
    return connection.execute(sql.SQL(query).format(sql.Identifier(schema, table))).fetchone()


def test_stream_loads_the_same_rows_as_the_fleet(pg_connection: psycopg.Connection) -> None:
    whole = simulate_fleet(**SMALL)
    seen = []
    n = load_fleet(pg_connection, whole, "whole")
    streamed = stream_fleet(**SMALL, rows_per_chunk=100)
    # the first load creates the tables, the second finds them
    create_source_tables(pg_connection, "streamed")
    assert (
        load_fleet(pg_connection, streamed, "streamed", progress=lambda *p: seen.append(p))
        == n
        == len(whole.traces)
    )
    for table in SOURCE_TABLES:
        assert content(pg_connection, "whole", table) == content(pg_connection, "streamed", table)
    assert seen == sorted(seen) and len(seen) > 2
    assert seen[-1] == (n, n)
    analyzed = "select reltuples from pg_class where oid = 'whole.covenant_traces'::regclass"
    assert pg_connection.execute(analyzed).fetchone() == (n,)


def test_a_table_that_holds_traces_is_refused_before_anything_is_written(
    pg_connection: psycopg.Connection,
) -> None:
    load_fleet(pg_connection, simulate_fleet(**SMALL))
    pg_connection.execute("delete from cirislens.wbd_deferrals")
    n = pg_connection.execute("select count(*) from cirislens.covenant_traces").fetchone()[0]
    for load in (
        lambda: load_fleet(pg_connection, simulate_fleet(**SMALL)),
        lambda: load_sample(pg_connection),
    ):
        with pytest.raises(TargetHoldsTraces) as refusal:
            load()
        assert (refusal.value.table, refusal.value.n) == ("cirislens.covenant_traces", n)
    assert content(pg_connection, "cirislens", "wbd_deferrals")[0] == 0


def test_a_load_that_fails_leaves_nothing_behind(pg_connection: psycopg.Connection) -> None:
    broken = simulate_fleet(**SMALL)
    broken.traces.loc[len(broken.traces) - 1, "signature_key_id"] = "x" * 65
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        load_fleet(pg_connection, broken)
    assert pg_connection.execute("select to_regnamespace('cirislens')").fetchone() == (None,)


# --- the sample ------------------------------------------------------------------------------------------------------


DIGESTS = {
    "traces": "1f2cb50ff29d6ca15e170c200583a1c13b4a95de1e01634d5eacbdbc84e0e823",
    "deferrals": "23f91cf943a18f3b606ffee837e0e7475b33b80025f78f5c27cd75b757cc569d",
    "public_keys": "26d7526c355ad94f1e9696d69b6bf670263c9e3e68c51a0b52283e69860306f4",
    "batches": "8a114644294d5c349124d8d740f1914fddf0b823d46f613f14332281c2699cae",
}


def test_the_sample_never_changes() -> None:
    """The documents show its scores, so every version of the simulator and of numpy must give the same bytes."""
    fleet = sample_fleet()
    found = {
        table: sha256("".join(copy_text([getattr(fleet, table)])).encode()).hexdigest() for table in DIGESTS
    }
    assert found == DIGESTS
