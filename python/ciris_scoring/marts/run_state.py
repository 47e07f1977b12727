"""Runs and their outcomes, from the run log."""

from dataclasses import dataclass, replace
from datetime import datetime

from ciris_scoring.database.connection import has_right
from ciris_scoring.database.run_lock import RUN_LOCK, is_held
from ciris_scoring.marts.marts import Marts

OUTCOMES = ("published", "failed", "unfinished")
"""Outcomes of a run that was meant to publish scores and started. The other outcomes are "refused" (the run did not
start) and "built" (a run of single models, which does not publish)."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A row of fct_scoring_runs, with the same nulls."""

    as_of: datetime | None
    started_at: datetime
    seconds: float | None
    command: str
    outcome: str
    n_scores: int | None
    n_late_traces: int | None
    message: str | None
    is_at_work: bool = False
    """Whether a session holds the run lock. It is determined only for an unfinished run."""


def run_records(marts: Marts, limit: int) -> list[RunRecord] | None:
    """Read the newest run records, the newest first, or return None if the role has no right to read them."""
    if marts.may_read("fct_scoring_runs"):
        log = "{fct_scoring_runs}"
    elif has_right(marts.connection, marts.relations.places["int_runs"]):
        # fct_scoring_runs does not exist before the first published run.
        log = """(
            select
                as_of, started_at, ended_at, extract(epoch from ended_at - started_at)::float8 as seconds, command,
                coalesce(outcome, 'unfinished') as outcome, n_scores, n_late_traces, message
            from {int_runs}
        ) as runs"""
    else:
        return None
    return marts.rows(
        RunRecord,
        f"select {{columns}} from {log} order by coalesce(ended_at, started_at) desc limit %(limit)s",
        limit=limit,
    )


def unfinished(marts: Marts) -> RunRecord | None:
    """Read the newest run if it neither published nor built its models. Return None otherwise, or if the role has no
    right to read the run log."""
    run = next(iter(run_records(marts, 1) or []), None)
    if run is None or run.outcome in ("published", "built"):
        return None
    return replace(run, is_at_work=is_held(marts.connection, RUN_LOCK, marts.relations.target_schema))


def last_run(marts: Marts) -> RunRecord | None:
    """Read the newest run that was meant to publish scores and was not refused. Return None if it does not exist, or if
    the role may not read the run log."""
    return next((run for run in run_records(marts, 100) or [] if run.outcome in OUTCOMES), None)
