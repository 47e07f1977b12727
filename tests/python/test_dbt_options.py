"""Tests of dbt options that change what is built: each is refused before anything is built, or works."""

from __future__ import annotations

import pytest

from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import NEWEST, built, dbt, marts, refusal, run

AS_OF = {"ciris_as_of": NEWEST}
TESTS_LEFT_OUT = "This dbt build would leave out tests that stop a run"


@pytest.fixture(scope="module")
def published(small_fleet: Database) -> Database:
    assert run(small_fleet).exit_code == 0
    return small_fleet


REFUSED = [
    (["build", "--empty"], "Option --empty (environment: DBT_EMPTY) is set"),
    (["run", "--empty", "--select", "dim_capacity_categories"], "Option --empty"),
    (["build", "--sample", "3 days"], "Option --sample (environment: DBT_SAMPLE) is set"),
    (["--no-populate-cache", "build"], "Option --no-populate-cache (environment: DBT_POPULATE_CACHE) is set"),
    (["build", "--exclude", "test_type:data"], TESTS_LEFT_OUT),
    (["build", "--exclude", "assert_every_source_row_is_checked"], TESTS_LEFT_OUT),
    (["build", "--exclude-resource-type", "test"], TESTS_LEFT_OUT),
    (["build", "--resource-type", "model"], TESTS_LEFT_OUT),
    (["build", "--indirect-selection", "empty", "--select", "fct_capacity_scores"], TESTS_LEFT_OUT),
]
ENVIRONMENT = [
    ("DBT_EMPTY", "1", "Option --empty"),
    ("DBT_ENGINE_EMPTY", "1", "Option --empty"),
    ("DBT_SAMPLE", "3 days", "Option --sample"),
    ("DBT_POPULATE_CACHE", "0", "Option --no-populate-cache"),
    ("DBT_RESOURCE_TYPES", "model", TESTS_LEFT_OUT),
    ("DBT_FULL_REFRESH", "1", "ciris_allow_rescoring: true"),
]


@pytest.mark.parametrize(("command", "expected"), REFUSED, ids=[" ".join(command) for command, _ in REFUSED])
def test_an_option_that_builds_other_rows_is_refused(published, command, expected):
    before, rows = built(published), marts(published)
    outcome = dbt(published, *command, variables=AS_OF)
    assert not outcome.succeeded
    assert expected in outcome.said, outcome.said
    assert built(published) == before
    assert marts(published) == rows


@pytest.mark.parametrize(("name", "value", "expected"), ENVIRONMENT)
def test_the_same_option_in_the_environment_is_refused(published, monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    before, rows = built(published), marts(published)
    outcome = dbt(published, "build", variables=AS_OF)
    assert not outcome.succeeded
    assert expected in outcome.said, outcome.said
    assert built(published) == before
    assert marts(published) == rows


def test_ciris_scoring_is_refused_with_an_option_in_the_environment(published, monkeypatch):
    monkeypatch.setenv("DBT_EMPTY", "1")
    before, rows = built(published), marts(published)
    assert "Option --empty (environment: DBT_EMPTY) is set" in refusal(run(published))
    assert built(published) == before
    assert marts(published) == rows


def test_reading_tables_of_another_environment_is_refused(published, tmp_path):
    state = tmp_path / "state"
    assert dbt(published, "parse", "--target-path", str(state), variables=AS_OF).succeeded
    before, rows = built(published), marts(published)
    options = ["--defer", "--favor-state", "--state", str(state)]
    outcome = dbt(published, "build", *options, "--select", "fct_capacity_alerts", variables=AS_OF)
    assert not outcome.succeeded
    assert "Option --defer (environment: DBT_DEFER) is set" in outcome.said, outcome.said
    assert built(published) == before
    assert marts(published) == rows


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
        ["build", "--select", "fct_capacity_scores", "--store-failures"],
        ["build", "--indirect-selection", "buildable", "--exclude", "fct_capacity_alerts+"],
    ],
    ids=lambda command: " ".join(command),
)
def test_an_option_that_changes_no_row_is_accepted(published, command):
    rows = marts(published, without=RUN_TIMES)
    outcome = dbt(published, *command, variables=AS_OF)
    assert outcome.succeeded, outcome.said
    assert marts(published, without=RUN_TIMES) == rows


@pytest.mark.parametrize("selector", ["daily", "publish"])
def test_a_selector_publishes_and_tables_report_their_rows(published, selector):
    outcome = dbt(published, "build", "--selector", selector, variables=AS_OF)
    assert outcome.succeeded, outcome.said
    with published.connect() as connection:
        log = "select outcome from ciris.fct_scoring_runs order by started_at desc limit 1"
        assert connection.execute(log).fetchone() == ("published",)
    tables = {
        result.node.name: result.adapter_response
        for result in outcome.results
        if result.node.resource_type == "model" and result.node.config.materialized == "replace_range"
    }
    assert {name for name, response in tables.items() if response.get("code") != "INSERT"} == set()
    assert tables["fct_capacity_scores"]["rows_affected"] > 0


def test_full_refresh_of_single_models_is_refused(published):
    """The tables that it reads contain only the rows that the last run scored."""
    assert run(published).exit_code == 0
    before, rows = built(published), marts(published)
    variables = {**AS_OF, "ciris_allow_rescoring": True}
    for part in ("int_windows", "fct_capacity_scores"):
        outcome = dbt(published, "build", "--full-refresh", "--select", part, variables=variables)
        assert not outcome.succeeded
        assert "cannot have a full refresh alone" in outcome.said, outcome.said
        assert "ciris-scoring run --full-refresh --allow-rescoring" in outcome.said
    assert built(published) == before
    assert marts(published) == rows
