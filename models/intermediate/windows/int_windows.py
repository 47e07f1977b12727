"""All numbers of every scored window, computed in numpy (scoring.md §3 to §7, certainty.md §3 to §5)."""

from typing import Any

from ciris_scoring.statistics.one_pass import compute_windows


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes."""
    dbt.config(materialized="replace_range")
    inputs = {
        "scoring_run": dbt.ref("int_scoring_run"),
        "scoring_parameters": dbt.ref("int_scoring_parameters"),
        "scoring_windows": dbt.ref("scoring_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_names": dbt.ref("int_agent_names"),
        "agent_periods": dbt.ref("int_agent_periods"),
        "deferral_verdicts": dbt.ref("int_deferral_verdicts"),
        "agent_events": dbt.ref("int_agent_events"),
    }
    return compute_windows(session, inputs)
