"""Tests of the project's variables: names and values are checked before anything is built."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ciris_scoring.errors import shown
from conftest import REPOSITORY, Database
from test_bad_input import NEWEST, built, dbt, marts, refusal

SCORED_UNTIL = NEWEST
VARIABLES = yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text())["vars"]
BOOLEAN = ("true or false, without quotes", ["false", "", 0, 1, None, {}])
PERIODS = ("a whole number of periods from 0 to 100000", ["6", 2.5, True, -1, [3], 100_001])
NAME = ("a name of 1 to 63 bytes without quotes", ["", " ", None, 2024, True, {}])
OPEN = ("a number between 0 and 1", [1.5, 1, 0, True])
CLOSED = ("a number in [0, 1]", [1.5, "0.8", True, None])
WRONG: dict[str, tuple[str, list[Any]]] = {
    "ciris_source": ("traces or events", ["", "Traces", False, ["traces"]]),
    **{f"ciris_{table}_table": NAME for table in (
        "covenant_traces", "wbd_deferrals", "covenant_public_keys", "covenant_trace_batches")},
    "ciris_source_schema": NAME,
    "ciris_scoring_parameters": ("a dictionary, such as {lambda_c: 5}", ["{}", False, 0, ["mu_c"]]),
    "ciris_verdict_threshold": CLOSED,
    "ciris_grant_probability": OPEN,
    "ciris_withhold_probability": OPEN,
    "ciris_vanished_share": CLOSED,
    "ciris_lookback_periods": PERIODS,
    "ciris_late_detection_periods": PERIODS,
    "ciris_allow_rescoring": BOOLEAN,
    "ciris_lock_wait_seconds": ("a number of seconds from 0 to 86400", ["", None, "60", -1, [60]]),
    "ciris_scoring_work_mem": ("a size from 1MB to 2047GB", [None, 256, "256", "256 MB", "1023kB", "2048GB"]),
    "ciris_distribution": ("none or citus", ["", None, False, "Citus"]),
}  # fmt: skip
"""Allowed and wrong values of variables. dbt reports the faults of all of them at once."""
REFUSED_ALONE = {
    "ciris_as_of": "yesterday",
    "ciris_rescore_from": "yesterday",
    "ciris_traces_from": 2020,
    "ciris_scored_run_kinds": ["Mock"],
    "ciris_scoring_period": "Day",
    "ciris_run_record": {"id": "x"},
    "ciris_time_spine": "false",
}
"""Wrong values of variables that dbt reads before it checks the other variables."""
MISSPELT = {
    "ciris_alow_rescoring": "ciris_allow_rescoring",
    "ciris_asof": "ciris_as_of",
    "CIRIS_AS_OF": "ciris_as_of",
    "ciris-lookback-periods": "ciris_lookback_periods",
}
PARAMETERS = {
    "lambda_c": (None, "lambda_c is null, but must be a number in [2, 10]"),
    "min_traces": ("30", "min_traces is '30', but must be a whole number in [1, 1000000]"),
    "require_registered_keys": ("true", "require_registered_keys is 'true', but must be true or false"),
    "replay_sample_salt": (1, "replay_sample_salt is 1, but must be text, in quotes"),
}
"""Wrong values of scoring parameters, and the messages."""


def test_every_variable_of_the_project_is_tested():
    assert WRONG.keys() | REFUSED_ALONE.keys() == VARIABLES.keys()


def told(database: Database, command: str = "build", **variables: Any) -> str:
    """Return the message of a refused run with variables."""
    return refusal(dbt(database, command, variables={"ciris_as_of": NEWEST, **variables}))


def check_wrong_values(database: Database, number: int) -> None:
    """Check that one wrong value of each variable and each misspelt name are refused, all in one message."""
    wrong = {name: values[number % len(values)] for name, (_, values) in WRONG.items()}
    said = told(database, **wrong, **dict.fromkeys(MISSPELT, "2026-06-01"))
    for name, value in wrong.items():
        assert f"ariable {name} is {shown(value)}, but " in said and WRONG[name][0] in said, (name, said)
    for name, meant in MISSPELT.items():
        assert f"There is no variable {name}; did you mean {meant}?" in said


def test_wrong_values_and_unknown_names_are_refused_all_at_once(small_fleet):
    before, rows = built(small_fleet), marts(small_fleet)
    check_wrong_values(small_fleet, 0)
    said = told(small_fleet, ciris_scoring_parameters={name: value for name, (value, _) in PARAMETERS.items()})
    assert [message for _, message in PARAMETERS.values() if message not in said] == []
    said = told(small_fleet, ciris_withhold_probability=0.9, ciris_scoring_parameters={"weight_c": 0.45})
    assert "ciris_withhold_probability is 0.9, but must be at most ciris_grant_probability (0.85)" in said
    assert "weight_c, weight_i_int, weight_r, weight_i_inc, weight_s sum to 1.25, but must sum to" in said
    assert (built(small_fleet), marts(small_fleet)) == (before, rows)


@pytest.mark.slow
def test_every_wrong_value_is_refused(small_fleet):
    for number in range(1, max(len(values) for _, values in WRONG.values())):
        check_wrong_values(small_fleet, number)
    for name, value in REFUSED_ALONE.items():
        said = told(small_fleet, "parse" if name == "ciris_time_spine" else "build", **{name: value})
        assert f"ariable {name} is {shown(value)}, " in said or f"{name} is {shown(value)}, but must be" in said
