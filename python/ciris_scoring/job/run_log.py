"""A run as its JSON summary and messages show it. Only dbt writes the log of runs (macros/checks/run_log.sql)."""

from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from ciris_scoring.database.connection import has_right
from ciris_scoring.database.relations import Relations
from ciris_scoring.errors import INTERRUPTED, CirisError, RunInProgress, RunRefused


@dataclass(slots=True)
class RunRecord:
    """A run: columns of ``int_runs``, whose YAML describes them, and the error of the process."""

    command: str
    as_of: datetime | None = None
    run_id: UUID = field(default_factory=uuid4)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    exit_code: int = 0
    message: str | None = None
    remedy: str | None = None
    n_scores: int | None = None
    n_late_traces: int | None = None
    version: str = field(default_factory=lambda: version("ciris-scoring"))

    def read(self, connection: psycopg.Connection, relations: Relations) -> None:
        """Read what the log has about this run. It has nothing if dbt has not started."""
        if not has_right(connection, relations.places["int_runs"]):
            return
        columns = ("started_at", "ended_at", "outcome", "n_scores", "n_late_traces")
        query = sql.SQL("select {} from {} where run_id = %s").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), relations["int_runs"]
        )
        for row in connection.execute(query, [self.run_id]).fetchall():
            for name, value in zip(columns, row, strict=True):
                setattr(self, name, value)

    def end_with(self, error: BaseException) -> None:
        """Note the error that ended the process. An outcome that the log has is not changed."""
        kind = "failed"
        self.exit_code, self.message, self.remedy = 1, f"{type(error).__name__}: {error}", None
        if isinstance(error, CirisError):
            self.exit_code, self.message, self.remedy = error.exit_code, error.message, error.hint
            if isinstance(error, RunInProgress | RunRefused) or error.exit_code == 2:
                kind = "refused"
        elif isinstance(error, KeyboardInterrupt):
            kind, self.exit_code, self.message = "interrupted", INTERRUPTED, None
        self.outcome = self.outcome or kind
