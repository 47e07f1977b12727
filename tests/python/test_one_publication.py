"""Test that all data of an answer of the API are from one publication."""

from __future__ import annotations

from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.api.settings import Settings
from conftest import REPOSITORY, Database
from serving import SCORING, asking, opened
from test_bad_input import run
from test_gate import BEFORE

SCORED_UNTIL = BEFORE


def test_answer_uses_one_publication_if_another_arrives_meanwhile(small_fleet: Database) -> None:
    """The server looks for a new publication only once an hour, and a run publishes one in between."""
    later = "2026-06-16T00:00:00+00:00"
    with small_fleet.connect() as connection:
        [agent] = connection.execute(f"select min(agent_id_hash) from {SCHEMA}.dim_agents").fetchone()
    project = load_project(REPOSITORY, small_fleet.profiles_dir)
    with opened(project, 4) as served, asking(served, Settings(version_seconds=3600)) as client:
        assert client.get(f"{SCORING}/parameters").status_code == 200
        assert run(small_fleet, as_of=later).exit_code == 0
        fleet = client.get(f"{SCORING}/capacity/fleet").json()
        assert fleet["as_of"] == later
        history = client.get(f"{SCORING}/history/{agent}").json()
        assert history["to"] == history["current_as_of"] == history["history"][-1]["as_of"] == later
        alerts = client.get(f"{SCORING}/alerts").json()
        assert {alerts["as_of"], *(one["as_of"] for one in alerts["alerts"])} == {later}
