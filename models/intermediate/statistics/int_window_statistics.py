"""Drift, R, limits and equal scores of every agent, as-of and window (scoring.md §5, certainty.md §3 and 5)."""

from typing import Any

from ciris_scoring.steps.window_statistics import window_statistics


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes."""
    dbt.config(materialized="replace_range")
    run = dbt.ref("int_scoring_run")
    parameters = dbt.ref("int_scoring_parameters")
    windows = dbt.ref("scoring_windows")
    digests = dbt.ref("int_interval_inputs")
    resilience = dbt.ref("int_resilience_inputs")
    awareness = dbt.ref("int_incompleteness_awareness")
    periods = dbt.ref("int_agent_periods")
    inputs = {
        "scoring_run": run,
        "scoring_parameters": parameters,
        "scoring_windows": windows,
        "interval_inputs": digests,
        "resilience_inputs": resilience,
        "incompleteness_awareness": awareness,
        "agent_periods": periods,
    }
    return window_statistics(dbt, session, inputs)
