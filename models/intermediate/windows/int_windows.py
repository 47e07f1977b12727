"""Every number of every scored window, in one numpy pass (scoring.md §3 to §7, certainty.md §3 to §5)."""

from typing import Any

from ciris_scoring.statistics.one_pass import compute_windows


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes."""
    dbt.config(materialized="replace_range")
    run = dbt.ref("int_scoring_run")
    parameters = dbt.ref("int_scoring_parameters")
    windows = dbt.ref("scoring_windows")
    agents = dbt.ref("int_agents")
    agent_names = dbt.ref("int_agent_names")
    periods = dbt.ref("int_agent_periods")
    deferrals = dbt.ref("int_deferral_verdicts")
    events = dbt.ref("int_agent_events")
    inputs = {
        "scoring_run": run,
        "scoring_parameters": parameters,
        "scoring_windows": windows,
        "agents": agents,
        "agent_names": agent_names,
        "agent_periods": periods,
        "deferral_verdicts": deferrals,
        "agent_events": events,
    }
    return compute_windows(session, inputs)
