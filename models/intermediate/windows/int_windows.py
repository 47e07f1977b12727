"""Sums and counts of every scored window, KL drift and coherence states, in numpy (scoring.md §3 to §7)."""

from typing import Any

from ciris_scoring.windows.model import compute_windows


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes."""
    dbt.config(materialized="replace_range")
    inputs = {
        "scoring_run": dbt.ref("int_scoring_run"),
        "scoring_parameters": dbt.ref("int_scoring_parameters"),
        "scoring_windows": dbt.ref("scoring_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_names": dbt.ref("int_agent_names"),
        "agent_periods": dbt.ref("int_agent_periods"),  # counts, histograms and signals by period
        "deferral_values": dbt.ref("int_deferral_values"),
        "agent_events": dbt.ref("int_agent_events"),  # fragile episodes
    }
    return compute_windows(session, inputs)
