"""Tests of the project's variables: names and values are checked before anything is built."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ciris_scoring.basics.errors import shown
from ciris_scoring.basics.project import vars_text
from ciris_scoring.basics.root_project import unknown_variables
from conftest import REPOSITORY, Database
from test_bad_input import NEWEST, built, dbt, marts, run

VARIABLES = yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text())["vars"]
BOOLEAN = ("true or false, without quotes", ["false", "", 0, 1, None, {}])
PERIODS = ("a whole number of periods from 0 to 100000", ["6", 2.5, True, -1, [3], 100_001])
NAME = ("a name, in quotes", ["", " ", None, 2024, True, {}])
WRONG: dict[str, tuple[str, list[Any]]] = {
    "ciris_source": ("traces or events", ["", "Traces", False, ["traces"]]),
    "ciris_source_schema": NAME,
    "ciris_covenant_traces_table": NAME,
    "ciris_wbd_deferrals_table": NAME,
    "ciris_covenant_public_keys_table": NAME,
    "ciris_covenant_trace_batches_table": NAME,
    "ciris_as_of": ("ISO 8601", ["", "yesterday", False]),
    "ciris_traces_from": ("ISO 8601", [None, 2020]),
    "ciris_scoring_period": ("day or hour", [None, "Day", 24]),
    "ciris_scoring_parameters": ("must be a dictionary", ["{}", False, ["mu_c"]]),
    "ciris_lookback_periods": PERIODS,
    "ciris_late_detection_periods": (PERIODS[0], [*PERIODS[1][:5], None]),
    "ciris_allow_rescoring": BOOLEAN,
    "ciris_lock_wait_seconds": ("a number of seconds from 0 to 86400", ["", None, "60", -1, [60]]),
    "ciris_scoring_work_mem": ("a size from 1MB to 2047GB", [None, 256, "256", "256 MB", "1023kB", "2048GB"]),
    "ciris_distribution": ("none or citus", ["", None, False, "Citus"]),
    "ciris_time_spine": BOOLEAN,
    "ciris_backfill": ("set by ciris-scoring alone", ["", False, {"first": NEWEST}, ["x"]]),
    "ciris_run_record": ("set by ciris-scoring alone", [False, {"id": "x"}]),
    "ciris_lock_holder_pid": ("set by ciris-scoring alone", ["", False, "123", ["x"]]),
}
CHECKED_ELSEWHERE = {"ciris_verdict_threshold", "ciris_grant_probability", "ciris_withhold_probability"}
REFUSED_ALONE = {
    "ciris_as_of",
    "ciris_traces_from",
    "ciris_scoring_period",
    "ciris_scoring_parameters",
    "ciris_run_record",
}
"""Variables that are not checked together with the others, but earlier or later."""
AT_PARSE_TIME = {"ciris_time_spine"}


@pytest.fixture(scope="module")
def published(small_fleet: Database) -> Database:
    assert run(small_fleet).exit_code == 0
    return small_fleet


@pytest.mark.parametrize(
    "value", [1e-9, 1e300, -0.0, 5, True, None, "1e-09", "true", "2026-06-15", "😀 ü\u2028", [], {}]
)
def test_dbt_reads_variables_as_they_were_given(value):
    read = yaml.safe_load(vars_text({"ciris_x": {"y": value}}))["ciris_x"]["y"]
    assert (type(read), read) == (type(value), value)


def test_every_variable_of_the_project_is_in_this_list():
    assert WRONG.keys() | CHECKED_ELSEWHERE == VARIABLES.keys()


def refused_in_plain_dbt(database: Database, variables: dict[str, Any]) -> str:
    """Return the message of a refused dbt build, which must not change anything."""
    before, rows = built(database), marts(database)
    outcome = dbt(database, "build", variables={"ciris_as_of": NEWEST, **variables})
    assert not outcome.succeeded
    assert built(database) == before
    assert marts(database) == rows
    return outcome.said


@pytest.mark.parametrize("n", range(max(len(values) for _, values in WRONG.values())))
def test_wrong_values_are_refused_all_at_once(published, n):
    wrong = {
        name: values[n % len(values)]
        for name, (_, values) in WRONG.items()
        if name not in REFUSED_ALONE | AT_PARSE_TIME
    }
    said = refused_in_plain_dbt(published, wrong)
    for name, value in wrong.items():
        assert f"Variable {name} is {shown(value)}, but " in said, said
        assert WRONG[name][0] in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, id=f"{name} {shown(value)}")
        for name in sorted(REFUSED_ALONE)
        for value in WRONG[name][1]
    ],
)
def test_a_wrong_value_is_refused(published, name, value):
    said = refused_in_plain_dbt(published, {name: value})
    assert f"ariable {name} is {shown(value)}" in said, said
    assert WRONG[name][0] in said


@pytest.mark.parametrize("value", ["false", "", 0])
def test_a_wrong_value_of_a_variable_that_decides_parsing_is_refused(published, value):
    outcome = dbt(published, "parse", variables={"ciris_time_spine": value})
    assert not outcome.succeeded
    assert f"ciris_time_spine is {shown(value)}, but must be true or false" in outcome.said


def test_unknown_names_are_refused_in_plain_dbt(published):
    names = {
        "ciris_alow_rescoring": "ciris_allow_rescoring",
        "ciris_asof": "ciris_as_of",
        "CIRIS_AS_OF": "ciris_as_of",
        "ciris-lookback-periods": "ciris_lookback_periods",
        "ciris_lookback_period": "ciris_lookback_periods",
    }
    said = refused_in_plain_dbt(published, dict.fromkeys(names, "2026-06-01"))
    for name, nearest in names.items():
        assert f"There is no variable {name}; did you mean {nearest}?" in said


def test_right_values_are_accepted(published):
    variables = {
        "ciris_as_of": NEWEST,
        "ciris_source": "traces",
        "ciris_lookback_periods": 3,
        "ciris_late_detection_periods": 0,
        "ciris_allow_rescoring": False,
        "ciris_scoring_parameters": None,
        "ciris_scoring_work_mem": "64MB",
        "variable_of_another_project": "1",
    }
    outcome = dbt(published, "build", "--select", "fct_fleet_capacity", variables=variables)
    assert outcome.succeeded, outcome.said


def given(root: dict[str, Any], command_line: dict[str, Any]) -> Any:
    return SimpleNamespace(vars=SimpleNamespace(to_dict=lambda: root), cli_vars=command_line)


def test_unknown_names_are_found_wherever_a_root_project_writes_them():
    root = {
        "ciris_sorce": "events",
        "theirs": 1,
        "ciris_source": "events",
        "consumer": {"ciris_of_their_own": 1},
        "ciris_scoring": {"ciris_time_spin": False, "ciris_time_spine": False},
    }
    found = unknown_variables(given(root, {"ciris_lookback": 3, "as_of": 1}), list(VARIABLES))
    assert found == {
        "ciris_sorce": "ciris_source",
        "ciris_time_spin": "ciris_time_spine",
        "ciris_lookback": "ciris_lookback_periods",
    }
