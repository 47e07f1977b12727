"""Test of a run that consists of several dbt processes with the same environment variable CIRIS_RUN.

`make soak` also runs Airflow with Cosmos, which starts dbt for each model (tests/programs/examples.py).
"""

from __future__ import annotations

import json

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from command_line import PROGRAMS, Command, at
from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import NEWEST, dbt, marts

SCORED_UNTIL = NEWEST
INPUTS = ("--select", "+int_scoring_run", "path:models/staging")
MODELS = ("--select", "path:models/intermediate")
MARTS, PUBLICATION = ("--select", "path:models/marts", "--exclude", "int_runs+"), ("--select", "int_runs+")
STEPS = (
    ("seed",),
    ("run", *INPUTS),
    ("test", *INPUTS),
    ("run", *MODELS, "--exclude", "+int_scoring_run"),
    ("run", *MARTS),
)
NO_UNIT_TESTS = ("--exclude-resource-type", "unit_test")


@pytest.mark.slow
def test_run_of_several_processes_publishes_the_same_rows_as_one_build(
    small_fleet: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model is refused until the run has an as-of. The publication is refused until all tests have passed."""
    expected = marts(small_fleet, without=RUN_TIMES)
    with small_fleet.connect() as connection:
        for layer in ("", "_staging", "_intermediate"):
            connection.execute(f"drop schema {SCHEMA}{layer} cascade")
    monkeypatch.setenv("CIRIS_RUN", "scheduled")

    def succeeds(command: str, *options: str) -> bool:
        tests = NO_UNIT_TESTS if command == "test" else ()
        outcome = dbt(small_fleet, command, *options, *tests, variables={"ciris_as_of": NEWEST})
        said.append(outcome.said)
        return outcome.succeeded

    said: list[str] = []
    assert not succeeds("run", "--select", "int_windows")
    assert "has not built int_scoring_run in schema ciris" in said[-1]
    assert all(succeeds(*step) for step in STEPS), said[-1]
    assert not succeeds("run", *PUBLICATION)
    assert "Nothing is published, because " in said[-1]
    variables = ("--vars", json.dumps({"ciris_as_of": NEWEST}))
    tests = (PROGRAMS / "dbt", "test", *at(small_fleet), *INPUTS, *NO_UNIT_TESTS, *variables)
    with Command(*tests) as at_the_same_time:
        assert succeeds("test", *MODELS), said[-1]
        assert at_the_same_time.wait() == 0, at_the_same_time.said
    assert succeeds("run", *PUBLICATION) and succeeds("test", *PUBLICATION), said[-1]
    assert marts(small_fleet, without=RUN_TIMES) == expected
    with small_fleet.connect() as connection:
        log = f"select outcome, n_scores > 0 from {SCHEMA}.fct_scoring_runs"
        assert connection.execute(log).fetchall() == [("published", True)]
