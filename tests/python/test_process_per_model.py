"""Test of a run that consists of several dbt processes with the same environment variable CIRIS_RUN.

`make soak` also runs Airflow with Cosmos, which starts dbt for each model (tests/programs/examples.py).
"""

from __future__ import annotations

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import NEWEST, dbt, marts

SCORED_UNTIL = NEWEST
INPUTS = ("--select", "+int_scoring_run", "path:models/staging")
MODELS = ("--select", "path:models/intermediate")
MARTS, PUBLICATION = ("--select", "path:models/marts", "--exclude", "int_runs+"), ("--select", "int_runs+")
ONE_BY_ONE = ("--indirect-selection", "buildable", "--exclude-resource-type", "unit_test")
STEPS = (
    ("seed",),
    ("run", *INPUTS),
    ("test", *INPUTS, *ONE_BY_ONE),
    ("run", *MODELS, "--exclude", "+int_scoring_run"),
    ("test", *MODELS, *ONE_BY_ONE),
)
"""Commands of a scheduler. A test runs after the last model that it reads (`buildable`)."""


@pytest.mark.slow
def test_run_of_several_processes_publishes_the_same_rows_as_one_build(
    small_fleet: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model is refused until the run has built int_scoring_run, and until the models that it reads are built."""
    expected = marts(small_fleet, without=RUN_TIMES)
    with small_fleet.connect() as connection:
        for layer in ("", "_staging", "_intermediate"):
            connection.execute(f"drop schema {SCHEMA}{layer} cascade")
    monkeypatch.setenv("CIRIS_RUN", "scheduled")

    def succeeds(command: str, *options: str) -> bool:
        outcome = dbt(small_fleet, command, *options, variables={"ciris_as_of": NEWEST})
        said.append(outcome.output)
        return outcome.exit_code == 0

    said: list[str] = []
    assert not succeeds("run", "--select", "int_windows")
    assert "No run has begun in schema ciris" in said[-1]
    assert all(succeeds(*step) for step in STEPS), said[-1]
    monkeypatch.setenv("CIRIS_RUN", "another")
    assert not succeeds("run", *MARTS)
    assert "the run 'another' (environment variable CIRIS_RUN) has not built int_scoring_run yet" in said[-1]
    monkeypatch.setenv("CIRIS_RUN", "scheduled")
    assert not succeeds("run", *PUBLICATION)
    assert "int_runs reads dim_agents, " in said[-1]
    assert succeeds("run", *MARTS) and succeeds("run", *PUBLICATION), said[-1]
    assert marts(small_fleet, without=RUN_TIMES) == expected
    with small_fleet.connect() as connection:
        log = f"select outcome, n_scores > 0 from {SCHEMA}.fct_scoring_runs order by outcome"
        assert connection.execute(log).fetchall() == [("failed", None), ("published", True)]
