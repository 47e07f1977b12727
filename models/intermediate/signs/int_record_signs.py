"""Every sign of a polished record that is raised (certainty.md §5): a warning, never part of a score."""

from typing import Any

from ciris_scoring.statistics.sign_rows import record_signs


def model(dbt: Any, session: Any) -> str:
    """Return the query of the signs that this run finds."""
    dbt.config(materialized="replace_range")
    dbt.ref("int_scoring_run")  # the range to rewrite
    inputs = dbt.ref("int_sign_inputs")
    successions = dbt.ref("int_successions")
    relations = {"sign_inputs": inputs, "successions": successions}
    return record_signs(dbt, session, relations)
