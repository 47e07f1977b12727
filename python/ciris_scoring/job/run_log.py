"""The log of runs; its mart is fct_scoring_runs.

A run logs its beginning and end on its own connection, so that refused, failed and killed runs are known too.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import connect, has_right, one_row
from ciris_scoring.basics.errors import (
    INTERRUPTED,
    CirisError,
    DatabaseError,
    RunInProgress,
    RunRefused,
    one_line,
)
from ciris_scoring.basics.ownership import check_ownership
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.terminal import say


@dataclass(slots=True)
class Attempt:
    """A row of int_runs; its columns say what the fields mean."""

    command: str
    as_of: datetime | None = None
    run_id: UUID = field(default_factory=uuid4)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    exit_code: int | None = None
    message: str | None = None
    remedy: str | None = None
    n_scores: int | None = None
    n_late_traces: int | None = None
    state_digest: str | None = None
    version: str = field(default_factory=lambda: version("ciris-scoring"))

    def end_with(self, error: BaseException) -> None:
        """Note the error that ended it; a published run stays published."""
        kind = "failed"
        self.exit_code, self.message, self.remedy = 1, f"{type(error).__name__}: {error}", None
        if isinstance(error, CirisError):
            self.exit_code, self.message, self.remedy = error.exit_code, error.message, error.hint
            if isinstance(error, RunInProgress | RunRefused) or error.exit_code == 2:
                kind = "refused"
        elif isinstance(error, KeyboardInterrupt):
            kind, self.exit_code, self.message = "interrupted", INTERRUPTED, None
        self.outcome = self.outcome or kind


@contextlib.contextmanager
def logged(project: Project, relations: Relations, attempt: Attempt) -> Iterator[None]:
    """Log a run, and at the end its outcome. Without a log, or the right to write it, the run goes on.

    :raises CirisError: what the block raises, and what :func:`connect` does.
    """
    with connect(project, writes=True) as connection:
        check_ownership(connection, relations)
        [attempt.started_at] = one_row(connection.execute("select now()"))
        _enter(connection, relations, attempt)
    try:
        yield
        attempt.outcome, attempt.exit_code = "published", 0
    except BaseException as error:
        attempt.end_with(error)
        raise
    finally:
        _enter_the_end(project, relations, attempt)


def _enter_the_end(project: Project, relations: Relations, attempt: Attempt) -> None:
    try:
        with connect(project) as connection:
            [attempt.ended_at] = one_row(connection.execute("select now()"))
            if attempt.outcome == "published":
                attempt.n_scores, attempt.n_late_traces = _published(connection, relations, attempt)
            _enter(connection, relations, attempt)
    except DatabaseError as error:
        say(f"The log of runs could not be written: {one_line(error.message)}")


def _published(connection: psycopg.Connection, relations: Relations, attempt: Attempt) -> tuple[int, int]:
    """Count the scores that the run wrote, and the traces after it that came, or got an outcome, too late."""
    query = sql.SQL(
        """
        select
            (select count(*) from {} where scored_at >= %s),
            (select coalesce(sum(n), 0)::bigint from {} where issue in ('late_trace', 'late_outcome'))
        """
    ).format(relations["fct_capacity_scores"], relations["fct_data_quality"])
    n_scores, n_late_traces = one_row(connection.execute(query, [attempt.started_at]))
    return n_scores, n_late_traces


def _enter(connection: psycopg.Connection, relations: Relations, attempt: Attempt) -> None:
    """Write the known columns of the run's row; the first run makes the table."""
    if not has_right(connection, *relations.places["int_runs"], "insert"):
        return
    row: dict[str, Any] = {name: value for name, value in asdict(attempt).items() if value is not None}
    for name in row.keys() & {"message", "remedy"}:
        row[name] = one_line(row[name]).replace("\0", "")
    columns = [sql.Identifier(name) for name in row]
    query = sql.SQL(
        "insert into {} ({}) values ({}) on conflict (run_id) do update set ({}) = row({})"
    ).format(
        relations["int_runs"],
        sql.SQL(", ").join(columns),
        sql.SQL(", ").join(map(sql.Placeholder, row)),
        sql.SQL(", ").join(columns),
        sql.SQL(", ").join(sql.SQL("excluded.{}").format(column) for column in columns),
    )
    connection.execute(query, row)
