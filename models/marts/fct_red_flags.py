"""Raised red flags of selective reporting (certainty.md §5). They are warnings and do not change a score."""

from typing import Any

from ciris_scoring.red_flags.model import red_flags


def model(dbt: Any, session: Any) -> str:
    """Return the query of the red flags that this run raises."""
    dbt.config(materialized="replace_range")
    dbt.ref("int_scoring_run")  # int_scoring_run has the range that is rewritten
    inputs = {
        "windows": dbt.ref("int_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_names": dbt.ref("int_agent_names"),
        "agent_periods": dbt.ref("int_agent_periods"),
    }
    return red_flags(dbt, session, inputs)
