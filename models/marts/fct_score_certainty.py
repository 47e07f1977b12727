"""Certainty of each score, in numpy: confidence bounds, losses, steady score, and inputs of alerts (certainty.md)."""

from typing import Any

from ciris_scoring.certainty.model import compute_certainty


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes."""
    dbt.config(materialized="replace_range")
    dbt.ref("fct_capacity_scores")  # the materialization gives the scores of this run in rows_after_run
    inputs = {
        "scoring_run": dbt.ref("int_scoring_run"),
        "scoring_parameters": dbt.ref("int_scoring_parameters"),
        "scoring_windows": dbt.ref("scoring_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_periods": dbt.ref("int_agent_periods"),
        "deferral_values": dbt.ref("int_deferral_values"),
        "agent_events": dbt.ref("int_agent_events"),
        "windows": dbt.ref("int_windows"),
        "scores": dbt.rows_after_run["fct_capacity_scores"],
    }
    return compute_certainty(session, inputs, dbt.settings)
