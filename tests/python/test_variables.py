"""Tests of the project's variables: names and values are checked before anything is built."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ciris_scoring.database.project import _check_names, vars_text
from ciris_scoring.database.variables import VARIABLES as CHECKED
from ciris_scoring.database.variables import faults, unknown_variables
from ciris_scoring.errors import InputError, shown
from conftest import REPOSITORY
from test_bad_input import NEWEST, built, dbt, marts

SCORED_UNTIL = NEWEST
VARIABLES = yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text())["vars"]
BOOLEAN = ("true or false, without quotes", ["false", "", 0, 1, None, {}])
PERIODS = ("a whole number of periods from 0 to 100000", ["6", 2.5, True, -1, [3], 100_001])
NAME = ("a name of 1 to 63 bytes without quotes", ["", " ", None, 2024, True, {}])
OPEN = ("a number between 0 and 1", [1.5, 1, 0, math.nan, True])
WRONG: dict[str, tuple[str, list[Any]]] = {
    "ciris_source": ("traces or events", ["", "Traces", False, ["traces"]]),
    "ciris_source_schema": NAME,
    "ciris_covenant_traces_table": NAME,
    "ciris_wbd_deferrals_table": NAME,
    "ciris_covenant_public_keys_table": NAME,
    "ciris_covenant_trace_batches_table": NAME,
    "ciris_scored_run_kinds": (
        "a list of one or more of production, mock and test",
        ["production", [], None, ["Mock"], {"mock": 1}, [["mock"]]],
    ),
    "ciris_scoring_period": ("day or hour", [None, "Day", 24]),
    "ciris_scoring_parameters": ("a dictionary, such as {lambda_c: 5}", ["{}", False, 0, ["mu_c"]]),
    "ciris_verdict_threshold": ("a number in [0, 1]", [1.5, "0.8", True, None, math.nan]),
    "ciris_grant_probability": OPEN,
    "ciris_withhold_probability": OPEN,
    "ciris_vanished_share": ("a number in [0, 1]", [1.5, "0.2", True, None, math.nan]),
    "ciris_lookback_periods": PERIODS,
    "ciris_late_detection_periods": (PERIODS[0], [*PERIODS[1][:5], None]),
    "ciris_allow_rescoring": BOOLEAN,
    "ciris_lock_wait_seconds": ("a number of seconds from 0 to 86400", ["", None, "60", -1, [60]]),
    "ciris_scoring_work_mem": ("a size from 1MB to 2047GB", [None, 256, "256", "256 MB", "1023kB", "2048GB"]),
    "ciris_distribution": ("none or citus", ["", None, False, "Citus"]),
    "ciris_time_spine": BOOLEAN,
    "ciris_run_record": ("set by ciris-scoring alone", [False, {"id": "x"}]),
}
REFUSED_ALONE = {
    "ciris_as_of": "yesterday",
    "ciris_rescore_from": "yesterday",
    "ciris_traces_from": 2020,
    "ciris_scored_run_kinds": "production",
    "ciris_scoring_period": "Day",
    "ciris_run_record": {"id": "x"},
}
"""Wrong values of variables that dbt reads before it checks the other variables."""
NUMBER = {"kind": "number", "default": 0.2, "minimum": 0, "maximum": 1}
PARAMETERS = {
    "lambda_c": {"kind": "number", "default": 5, "minimum": 2, "maximum": 10},
    "min_traces": {"kind": "integer", "default": 30, "minimum": 1, "maximum": 1000000},
    "require_registered_keys": {"kind": "boolean", "default": True},
    "replay_sample_salt": {"kind": "text", "default": ""},
    **dict.fromkeys(("weight_c", "weight_i_int", "weight_r", "weight_i_inc", "weight_s"), NUMBER),
}
DEFAULTS = {name.removeprefix("ciris_"): value for name, value in VARIABLES.items()}


@pytest.mark.parametrize(
    "value", [1e-9, 1e300, -0.0, 5, True, None, "1e-09", "true", "2026-06-15", "😀 ü\u2028", [], {}]
)
def test_dbt_reads_variables_with_unchanged_type_and_value(value):
    read = yaml.safe_load(vars_text({"ciris_x": {"y": value}}))["ciris_x"]["y"]
    assert (type(read), read) == (type(value), value)


def given(root: dict[str, Any], command_line: dict[str, Any]) -> Any:
    return SimpleNamespace(vars=SimpleNamespace(to_dict=lambda: root), cli_vars=command_line)


def found(**settings: Any) -> list[str]:
    return list(faults(given({}, {}), DEFAULTS | settings, PARAMETERS))


def test_every_variable_of_the_project_is_checked():
    assert {f"ciris_{name}" for name in CHECKED} == VARIABLES.keys()
    assert WRONG.keys() | {"ciris_as_of", "ciris_rescore_from", "ciris_traces_from"} == VARIABLES.keys()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_a_fault(name):
    allowed, values = WRONG[name]
    for value in values:
        [fault] = found(**{name.removeprefix("ciris_"): value})
        assert f"Variable {name} is {shown(value)}, but " in fault
        assert allowed in fault


def test_withhold_probability_above_grant_probability_is_a_fault():
    [fault] = found(withhold_probability=0.9)
    assert "ciris_withhold_probability is 0.9, but must be at most ciris_grant_probability (0.85)" in fault


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        ({"lambda_c": 2.0, "min_traces": 1, "require_registered_keys": False, "replay_sample_salt": "x"}, []),
        ({"weight_c": 0.3, "weight_s": 0.1}, []),
        ({"weight_c": 0.45}, ["weight_c, weight_i_int, weight_r, weight_i_inc, weight_s sum to 1.25, but must sum to"]),
        ({"lambda_c": None}, ["lambda_c is null, but must be a number in [2, 10]"]),
        ({"min_traces": "30"}, ["min_traces is '30', but must be a whole number in [1, 1000000]"]),
        ({"require_registered_keys": "true"}, ["require_registered_keys is 'true', but must be true or false"]),
        ({"replay_sample_salt": 1, "weight_c": 2}, ["weight_c is 2, but", "salt is 1, but must be text, in quotes"]),
    ],
)  # fmt: skip
def test_only_invalid_scoring_parameters_are_faults(values, expected):
    faults_found = sorted(found(scoring_parameters=values), reverse=True)
    assert len(faults_found) == len(expected)
    assert all(text in fault for text, fault in zip(expected, faults_found, strict=True)), faults_found


def test_wrong_values_and_unknown_names_are_refused_all_at_once(small_fleet):
    alone = {*REFUSED_ALONE, "ciris_time_spine"}
    wrong = {name: values[0] for name, (_, values) in WRONG.items() if name not in alone}
    names = {
        "ciris_alow_rescoring": "ciris_allow_rescoring",
        "ciris_asof": "ciris_as_of",
        "CIRIS_AS_OF": "ciris_as_of",
        "ciris-lookback-periods": "ciris_lookback_periods",
    }
    before, rows = built(small_fleet), marts(small_fleet)
    others = [{name: value} for name, value in REFUSED_ALONE.items()]
    for refused in (wrong | dict.fromkeys(names, "2026-06-01"), *others):
        outcome = dbt(small_fleet, "build", variables={"ciris_as_of": NEWEST, **refused})
        assert not outcome.succeeded
        for name, value in refused.items():
            if name in names:
                assert f"There is no variable {name}; did you mean {names[name]}?" in outcome.said
            else:
                assert f"ariable {name} is {shown(value)}, " in outcome.said
    assert (built(small_fleet), marts(small_fleet)) == (before, rows)


def test_a_wrong_value_of_a_variable_that_decides_parsing_is_refused(small_fleet):
    outcome = dbt(small_fleet, "parse", variables={"ciris_time_spine": "false"})
    assert not outcome.succeeded
    assert "ciris_time_spine is 'false', but must be true or false" in outcome.said


def test_unknown_names_are_found_wherever_a_root_project_sets_them():
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


@pytest.mark.parametrize("name", ["scoring_period", "ciris_scoring_periods"])
def test_a_misspelt_variable_of_a_root_project_is_refused(name):
    """The command would ignore a misspelt variable and score with the default. Other unknown variables are accepted."""
    _check_names({"their_schema": "x", "as_of": "x"}, VARIABLES, {"as_of": None}, is_root=False)
    with pytest.raises(InputError, match="did you mean ciris_scoring_period"):
        _check_names({name: "hour"}, VARIABLES, {}, is_root=False)
