"""Tests of dbt options: options that would build other rows are refused before anything is built."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from ciris_scoring.database.source_schema import create_source_tables
from command_line import succeeded
from pipeline import RUN_TIMES
from test_bad_input import NEWEST, built, dbt, marts, refusal

SCORED_UNTIL = NEWEST
AS_OF = {"ciris_as_of": NEWEST}
TESTS_LEFT_OUT = "This dbt build would leave out tests that stop a run"


REFUSED = [
    (["build", "--empty"], {}, "Option --empty (environment: DBT_EMPTY) is set"),
    (["build", "--sample", "3 days"], {}, "Option --sample (environment: DBT_SAMPLE) is set"),
    (["--no-populate-cache", "build"], {}, "Option --no-populate-cache (environment: DBT_POPULATE_CACHE)"),
    (["build", "--exclude", "test_type:data"], {}, TESTS_LEFT_OUT),
    (["build", "--resource-type", "model"], {}, TESTS_LEFT_OUT),
    (["build", "--indirect-selection", "empty", "--select", "int_trace_checks"], {}, TESTS_LEFT_OUT),
    (["build"], {"DBT_EMPTY": "1"}, "Option --empty"),
    (["build"], {"DBT_RESOURCE_TYPES": "model"}, TESTS_LEFT_OUT),
    (["build"], {"DBT_FULL_REFRESH": "1"}, "ciris_allow_rescoring: true"),
]
"""Refused commands, their environment variables, and a text of the message."""


def test_option_that_builds_other_rows_is_refused(small_fleet):
    before, rows = built(small_fleet), marts(small_fleet)
    for command, environment, expected in REFUSED:
        with patch.dict("os.environ", environment):
            said = refusal(dbt(small_fleet, *command, variables=AS_OF))
        assert expected in said, f"{command} {environment}: {said}"
    for part in ("int_windows", "fct_capacity_scores"):
        # The inputs of int_windows and fct_capacity_scores have only the rows of the last run.
        variables = {**AS_OF, "ciris_allow_rescoring": True}
        said = refusal(dbt(small_fleet, "build", "--full-refresh", "--select", part, variables=variables))
        assert "cannot have a full refresh alone" in said, said
        assert "ciris-scoring run --full-refresh --allow-rescoring" in said
    assert built(small_fleet) == before
    assert marts(small_fleet) == rows


@pytest.mark.parametrize("options", [["daily"], ["publish", "--store-failures"]], ids=" ".join)
def test_selector_builds_the_same_rows(small_fleet, options):
    rows = marts(small_fleet, without=RUN_TIMES)
    succeeded(dbt(small_fleet, "build", "--selector", *options, variables=AS_OF))
    assert marts(small_fleet, without=RUN_TIMES) == rows
    log = "select outcome from ciris.fct_scoring_runs order by started_at desc limit 1"
    assert small_fleet.execute(log) == [("published",)]


def test_part_of_the_models_is_refused_on_an_empty_target(database):
    with database.connect() as connection:
        create_source_tables(connection)
    said = refusal(dbt(database, "run", "--select", "fct_capacity_scores"))
    assert "No run has begun in schema ciris. Build everything first: ciris-scoring run" in said
