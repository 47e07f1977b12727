"""Raised red flags of selective reporting (certainty.md §5). They are warnings and do not change a score."""

from typing import Any

from ciris_scoring.red_flags.model import red_flags


def model(dbt: Any, session: Any) -> str:
    """Return the query of the red flags that this run raises."""
    dbt.config(materialized="replace_range")
    inputs = {
        "scoring_run": dbt.ref("int_scoring_run"),
        "scoring_parameters": dbt.ref("int_scoring_parameters"),
        "scoring_windows": dbt.ref("scoring_windows"),
        "windows": dbt.ref("int_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_names": dbt.ref("int_agent_names"),
        "agent_periods": dbt.ref("int_agent_periods"),
        "deferral_values": dbt.ref("int_deferral_values"),
        "agent_events": dbt.ref("int_agent_events"),
    }
    return red_flags(session, inputs)
