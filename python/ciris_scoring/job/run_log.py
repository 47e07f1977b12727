"""Write the log of runs, ``int_runs``; its mart is ``fct_scoring_runs``.

A run writes its start and its end, so that refused, failed and killed runs are logged too. With plain dbt,
macros/checks/run_log.sql executes the statements of this module.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from ciris_scoring.database.connection import connect, errors_in_words, one_row
from ciris_scoring.database.ownership import ownership_faults
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.database.statements import column_list
from ciris_scoring.database.terminal import say
from ciris_scoring.errors import (
    INTERRUPTED,
    CirisError,
    DatabaseError,
    RunInProgress,
    RunRefused,
    one_line,
)


@dataclass(slots=True)
class RunRecord:
    """A run record: a row of ``int_runs``, whose YAML describes the columns."""

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
    version: str = field(default_factory=lambda: version("ciris-scoring"))

    def end_with(self, error: BaseException) -> None:
        """Set the outcome from the error that ended the run. The outcome `published` is not changed."""
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
def logged(connection: psycopg.Connection, project: Project, relations: Relations, record: RunRecord) -> Iterator[None]:
    """Log the start of the run in the block, and at the end its outcome.

    The run continues without a log if the table of the log does not exist yet, or if the role may not write it.

    :raises DatabaseError: another role could run code as the scoring role.
    """
    # Check the owners before a table of the target is read: another role's object could run code as this role.
    for fault in ownership_faults(connection, relations):
        raise fault
    [record.started_at] = one_row(connection.execute("select now()"))
    _enter(connection, relations, record)
    try:
        with errors_in_words(project):
            yield
        record.outcome, record.exit_code = "published", 0
    except BaseException as error:
        record.end_with(error)
        raise
    finally:
        try:
            # If the server closed the connection, open a new connection to log the end of the run.
            with (
                connect(project) if connection.closed else contextlib.nullcontext(connection) as alive,
                errors_in_words(project),
            ):
                [record.ended_at] = one_row(alive.execute("select now()"))
                _enter(alive, relations, record)
        except DatabaseError as error:
            say(f"The log of runs could not be written: {one_line(error.message)}")


def _enter(connection: psycopg.Connection, relations: Relations, record: RunRecord) -> None:
    """Write the known columns of the run record. dbt creates the log in the first run, and adds columns that the log of
    an earlier version lacks, so only the end of such a run is logged here."""
    row = asdict(record)
    if row.keys() <= _columns_to_write(connection, relations):
        names = ("int_runs", "fct_capacity_scores", "fct_data_quality")
        statement = entry(row, *(relations[name] for name in names))
        for counts in connection.execute(statement).fetchall():
            record.n_scores, record.n_late_traces = counts


def _columns_to_write(connection: psycopg.Connection, relations: Relations) -> set[str]:
    """Return the columns of the log; none if it does not exist or if the role may not write it."""
    query = """
        select a.attname::text
        from pg_attribute as a
        inner join pg_class as c on a.attrelid = c.oid
        inner join pg_namespace as n on c.relnamespace = n.oid
        where
            n.nspname = %s and c.relname = %s and not a.attisdropped
            and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'insert')
    """
    return {name for (name,) in connection.execute(query, relations.places["int_runs"])}


def entry(row: Mapping[str, Any], log: sql.Composable, scores: sql.Composable, quality: sql.Composable) -> sql.Composed:
    """Return the statement that writes the known columns of a run record, unless the record already has an outcome.

    For a published run it also sets and returns the number of scores written, and the number of traces that arrived, or
    got an outcome, after their scores were final.

    :param row: values by column of ``int_runs``, the relation ``log``; None means unknown.
    """
    values: dict[str, sql.Composable] = {
        name: sql.Literal(one_line(value).replace("\0", "") if name in ("message", "remedy") else value)
        for name, value in row.items()
        if value is not None
    }
    if row.get("outcome") == "published":
        values["n_scores"] = sql.SQL(
            "(select count(*) from {} where scored_at >= (select started_at from {} where run_id = {}))"
        ).format(scores, log, values["run_id"])
        values["n_late_traces"] = sql.SQL(
            "(select coalesce(sum(n), 0)::bigint from {} where issue in ('late_trace', 'late_outcome'))"
        ).format(quality)
    return sql.SQL(
        "insert into {} as entered ({}) select {} on conflict (run_id) do update set ({}) = row({})"
        " where entered.outcome is null returning n_scores, n_late_traces"
    ).format(
        *(log, column_list(values), sql.SQL(", ").join(values.values())),
        *(column_list(values), column_list(values, "excluded")),
    )


def entry_text(relations: Iterable[object], row: Mapping[str, Any]) -> str:
    """Return the statement of :func:`entry` as text, for dbt's relations of int_runs, fct_capacity_scores and
    fct_data_quality."""
    return entry(row, *(sql.SQL(str(relation)) for relation in relations)).as_string(None)
