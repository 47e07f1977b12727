"""Signs of a polished record: every way to polish that leaves its sign is caught, and honest agents raise none.

A small fixed fleet; tests/python/signs.py measures how often on larger ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import dict_row

from ciris_scoring.trial.embedded import SCHEMA, Server
from ciris_scoring.trial.simulation import PATHOLOGIES, fleet_roster, simulate_fleet
from ciris_scoring.trial.simulation.load import load_fleet
from conftest import fresh_database
from pipeline import score
from polished import MANIPULATIONS
from signs import END

SEED = 7
BEGUN = {True: END - timedelta(days=15), False: END - timedelta(days=4)}
# Which agent is polished how.
POLISHED = {
    "override nulled": "overconfident",
    "override scrubbed": "contradictory",
    "fragility nulled": "stuck_fragile",
    "bad deferrals left open": "overconfident",
    "restart, same key": "drifting",
    "restart, new key": "unreplayable",
    "a phase per episode": "relapsing",
    "ten trivial traces per real one": "out_of_tune",
    "numbers begin again": "broken_chain",
    "a key a day": "renamed",
    "withheld and renumbered": "revoked_key",
}
HONEST = {"healthy", "new", "silent"}


@pytest.fixture(scope="module")
def agents() -> dict[str, str]:
    """Ids by pathology; of the two healthy ones the last."""
    roster = fleet_roster(len(PATHOLOGIES), SEED)
    return dict(zip(roster["pathology"], roster["agent_id_hash"], strict=True))


@pytest.fixture(scope="module")
def connection(
    embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory, agents: dict[str, str]
) -> Iterator[psycopg.Connection]:
    """A fleet at 600 traces per 7 days, most of it polished."""
    fleet = simulate_fleet(len(PATHOLOGIES), 33, 600 / 7, SEED, END)
    for manipulation in MANIPULATIONS:
        agent = agents[POLISHED[manipulation.name]]
        fleet = manipulation.polish(fleet, agent, BEGUN[manipulation.lasts])
    with (
        fresh_database(embedded_postgres, tmp_path_factory.mktemp("signs")) as database,
        database.connect() as connection,
    ):
        load_fleet(connection, fleet)
        score(database.profiles_dir, END)
        connection.execute(f"set search_path to {SCHEMA}")
        connection.row_factory = dict_row
        yield connection


def signs_by_agent(connection: psycopg.Connection, as_of) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    query = "select agent_id_hash, sign from fct_record_signs where as_of = %s and window_days = 7"
    for row in connection.execute(query, [as_of]):
        found[row["agent_id_hash"]].add(row["sign"])
    return found


@pytest.mark.parametrize("manipulation", MANIPULATIONS, ids=lambda manipulation: manipulation.name)
def test_each_way_to_polish_leaves_its_sign(connection, agents, manipulation):
    agent = agents[POLISHED[manipulation.name]]
    found = signs_by_agent(connection, END)
    expected = set() if manipulation.sign is None else {manipulation.sign}
    # Who restarts goes on under another id.
    assert found[agent] | found[agent[::-1]] >= expected
    if not expected:
        assert found[agent] == set()


def test_honest_agents_have_none_and_nobody_has_before(connection, agents):
    honest = {agents[pathology] for pathology in HONEST}
    assert not honest & signs_by_agent(connection, END).keys()
    assert signs_by_agent(connection, min(BEGUN.values()) - timedelta(days=1)) == {}


def test_a_row_says_what_it_compares(connection):
    rows = connection.execute("select * from fct_record_signs").fetchall()
    assert {row["sign"] for row in rows} == {manipulation.sign for manipulation in MANIPULATIONS} - {None}
    for row in rows:
        assert row["message"].endswith(".")
        assert (row["field"] is not None) == (row["sign"] in ("contradicted_null", "unreported"))
        is_alone = row["sign"] == "new_identity"
        assert is_alone == (row["compared_with"] is None) == (row["z"] is None)
        assert is_alone or (row["comparison_value"] is not None and math.isfinite(row["z"]))
    in_scores = connection.execute(
        "select count(*) as n from fct_record_signs as r join fct_capacity_scores as s"
        " using (agent_id_hash, as_of, window_days, scored_at)"
    ).fetchone()
    assert in_scores["n"] == len(rows)
