"""How far the last run came, when it has not published its scores.

The mart of runs says why, where it is there. What a run left unfinished besides is told by the tables behind the marts;
a role that may not read those learns nothing of it.
"""

from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from ciris_scoring.basics.connection import has_right, one_row
from ciris_scoring.basics.run_lock import RUN_LOCK, is_held
from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that has not published its scores."""

    as_of: datetime
    started_at: datetime
    waiting_scores: int
    """Rows that wait for the Python step, which computes resilience and intervals."""
    is_at_work: bool
    """Whether somebody holds the lock of a run; if not, the run was refused, failed or was stopped."""
    outcome: str | None = None
    """refused, failed or interrupted, where the run could say so."""
    message: str | None = None
    """What it said of the cause."""
    remedy: str | None = None
    """What it said to do about it."""


def unfinished(marts: Marts) -> Unfinished | None:
    """Read what the last run left unfinished; None when that is nothing, or the role may not know.

    :raises psycopg.Error: the database cannot be read.
    """
    connection, relations = marts.connection, marts.relations
    stopped = _stopped(marts)
    if stopped is not None:
        return stopped
    places = relations.places
    if not has_right(connection, *places["int_scoring_run"]):
        return None
    finished = sql.Composed([])
    if has_right(connection, *places["int_score_publications"]):
        finished = sql.SQL(
            "where not exists (select 1 from {} where published_at >= runs.started_at)"
        ).format(relations["int_score_publications"])
    query = sql.SQL("select as_of, started_at from {} as runs {}").format(
        relations["int_scoring_run"], finished
    )
    found = connection.execute(query).fetchall()
    if not found:
        return None
    [(as_of, started_at)] = found
    waiting = 0
    if all(has_right(connection, *places[f"int_resilience_{name}"]) for name in ("inputs", "scores")):
        waiting = one_row(
            connection.execute(
                sql.SQL(
                    """
                    select count(*)
                    from {} as inputs
                    where inputs.as_of > (select runs.cutoff from {} as runs) and not exists (
                        select 1
                        from {} as scores
                        where
                            scores.agent_id_hash = inputs.agent_id_hash
                            and scores.as_of = inputs.as_of
                            and scores.window_days = inputs.window_days
                            and scores.inputs_digest = inputs.inputs_digest
                    )
                    """
                ).format(
                    relations["int_resilience_inputs"],
                    relations["int_scoring_run"],
                    relations["int_resilience_scores"],
                )
            )
        )[0]
    return Unfinished(as_of, started_at, int(waiting), is_held(connection, RUN_LOCK, relations.target_schema))


def _stopped(marts: Marts) -> Unfinished | None:
    """The newest attempt to publish, where it said why it did not."""
    attempt = next(iter(attempts(marts, 1) or []), None)
    if attempt is None or attempt.outcome not in ("refused", "failed", "interrupted"):
        return None
    is_at_work = is_held(marts.connection, RUN_LOCK, marts.relations.target_schema)
    return Unfinished(
        attempt.as_of,
        attempt.started_at,
        0,
        is_at_work,
        attempt.outcome,
        attempt.message,
        attempt.remedy,
    )


OUTCOMES = ("published", "failed", "interrupted", "unfinished")
"""What may become of a run; one that was refused never was one."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of fct_scoring_runs; nulls are those of the mart."""

    as_of: datetime
    started_at: datetime
    seconds: float | None
    command: str
    outcome: str
    n_scores: int | None
    n_late_traces: int | None
    message: str | None
    remedy: str | None


def attempts(marts: Marts, limit: int) -> list[Attempt] | None:
    """Read the newest attempts to publish, the newest first; None where the role may not.

    :raises psycopg.Error: the database cannot be read.
    """
    if not marts.may_read("fct_scoring_runs"):
        return None
    return marts.rows(
        Attempt,
        """
        select {columns}
        from {fct_scoring_runs}
        order by coalesce(ended_at, started_at) desc
        limit %(limit)s
        """,
        limit=limit,
    )


def last_run(marts: Marts) -> Attempt | None:
    """Read the newest attempt to publish that was not refused, of the newest ones; None where the role may not know.

    :raises psycopg.Error: the database cannot be read.
    """
    return next((run for run in attempts(marts, 100) or [] if run.outcome != "refused"), None)
