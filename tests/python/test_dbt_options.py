"""Tests of dbt options that change the built models or rows: each is refused before anything is built, or works."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from ciris_scoring.basics.source_schema import create_source_tables
from pipeline import RUN_TIMES
from test_bad_input import NEWEST, built, dbt, marts, refusal, run

SCORED_UNTIL = NEWEST
AS_OF = {"ciris_as_of": NEWEST}
TESTS_LEFT_OUT = "This dbt build would leave out tests that stop a run"


REFUSED = [
    (["build", "--empty"], {}, "Option --empty (environment: DBT_EMPTY) is set"),
    (["run", "--empty", "--select", "dim_capacity_categories"], {}, "Option --empty"),
    (["build", "--sample", "3 days"], {}, "Option --sample (environment: DBT_SAMPLE) is set"),
    (["--no-populate-cache", "build"], {}, "Option --no-populate-cache (environment: DBT_POPULATE_CACHE)"),
    (["build", "--exclude", "test_type:data"], {}, TESTS_LEFT_OUT),
    (["build", "--exclude", "assert_every_source_row_is_checked"], {}, TESTS_LEFT_OUT),
    (["build", "--exclude-resource-type", "test"], {}, TESTS_LEFT_OUT),
    (["build", "--resource-type", "model"], {}, TESTS_LEFT_OUT),
    (["build", "--indirect-selection", "empty", "--select", "int_trace_checks"], {}, TESTS_LEFT_OUT),
    (["build"], {"DBT_EMPTY": "1"}, "Option --empty"),
    (["build"], {"DBT_ENGINE_EMPTY": "1"}, "Option --empty"),
    (
        ["build", "--defer", "--favor-state", "--state", "{state}"],
        {},
        "Option --defer (environment: DBT_DEFER) is set",
    ),
    (["build"], {"DBT_RESOURCE_TYPES": "model"}, TESTS_LEFT_OUT),
    (["build"], {"DBT_FULL_REFRESH": "1"}, "ciris_allow_rescoring: true"),
]
"""Command, environment, and text of the message."""


def test_option_that_builds_other_rows_is_refused(small_fleet, tmp_path):
    assert dbt(small_fleet, "parse", "--target-path", str(tmp_path), variables=AS_OF).succeeded
    before, rows = built(small_fleet), marts(small_fleet)
    for command, environment, expected in REFUSED:
        with patch.dict("os.environ", environment):
            arguments = [argument.replace("{state}", str(tmp_path)) for argument in command]
            outcome = dbt(small_fleet, *arguments, variables=AS_OF)
        assert not outcome.succeeded and expected in outcome.said, f"{command} {environment}: {outcome.said}"
    with patch.dict("os.environ", DBT_EMPTY="1"):
        assert "Option --empty (environment: DBT_EMPTY) is set" in refusal(run(small_fleet))
    for part in ("int_windows", "fct_capacity_scores"):
        # The tables that it reads contain only the rows that the last run scored.
        variables = {**AS_OF, "ciris_allow_rescoring": True}
        outcome = dbt(small_fleet, "build", "--full-refresh", "--select", part, variables=variables)
        assert not outcome.succeeded and "cannot have a full refresh alone" in outcome.said, outcome.said
        assert "ciris-scoring run --full-refresh --allow-rescoring" in outcome.said
    assert built(small_fleet) == before
    assert marts(small_fleet) == rows


@pytest.mark.parametrize(
    "command",
    [
        [
            "--cache-selected-only",
            "build",
            "--event-time-start",
            "2026-06-01",
            "--event-time-end",
            "2026-06-02",
        ],
        ["build", "--selector", "daily"],
        ["build", "--selector", "publish", "--store-failures"],
    ],
    ids=lambda command: " ".join(command),
)
def test_option_that_changes_no_row_is_accepted(small_fleet, command):
    rows = marts(small_fleet, without=RUN_TIMES)
    outcome = dbt(small_fleet, *command, variables=AS_OF)
    assert outcome.succeeded, outcome.said
    assert marts(small_fleet, without=RUN_TIMES) == rows
    if "--selector" not in command:
        return
    with small_fleet.connect() as connection:
        log = "select outcome from ciris.fct_scoring_runs order by started_at desc limit 1"
        assert connection.execute(log).fetchone() == ("published",)
    tables = {
        result.node.name: result.adapter_response
        for result in outcome.results
        if result.node.resource_type == "model" and result.node.config.materialized == "replace_range"
    }
    assert {name for name, response in tables.items() if response.get("code") != "INSERT"} == set()
    assert tables["fct_capacity_scores"]["rows_affected"] > 0


def test_part_of_the_models_is_refused_on_an_empty_target(database):
    with database.connect() as connection:
        create_source_tables(connection)
    outcome = dbt(database, "run", "--select", "fct_capacity_scores")
    assert not outcome.succeeded
    assert "There is no int_scoring_run in schema ciris_intermediate yet" in outcome.said
    assert "Build everything first: ciris-scoring run" in outcome.said
