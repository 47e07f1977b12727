"""Plan a backfill: score a closed range of as-ofs in steps, each a whole run (scoring.md §9).

A backfill checks again all traces on which a score of the range depends. It also checks later traces again, up to the
newest published as-of, because the checks of a trace depend on earlier traces. It scores only the as-ofs of the range.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.basics.connection import one_row, table_exists
from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.source_shape import traced_times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Step:
    """A run of a backfill: check the traces in [rechecked_from, as_of) again, and score the as-ofs in (cutoff,
    as_of]."""

    rechecked_from: datetime
    as_of: datetime
    cutoff: datetime

    def __str__(self) -> str:
        scored = "" if self.cutoff < self.as_of else ", without scores"
        return f"traces from {as_of_time.text(self.rechecked_from)} to {as_of_time.text(self.as_of)}{scored}"


@dataclass(frozen=True)
class Backfill:
    """A closed range of as-ofs to score, and the remaining steps."""

    first: datetime
    last: datetime
    until: datetime
    """End of the last step."""
    steps: tuple[Step, ...]
    is_resumed: bool = False
    is_from_nothing: bool = False
    """Whether nothing is published. The first step then ignores the tables of an unfinished first run."""

    def variables(self, step: Step) -> dict[str, dict[str, str]]:
        """Return the dbt variable that makes a run execute this step of the backfill."""
        times = {
            "first": self.first,
            "last": self.last,
            "until": self.until,
            "rechecked_from": step.rechecked_from,
            "cutoff": step.cutoff,
        }
        return {"backfill": {name: as_of_time.text(moment) for name, moment in times.items()}}


def plan_steps(
    start: datetime,
    earliest: datetime,
    first: datetime,
    last: datetime,
    until: datetime,
    period: timedelta,
    length: timedelta,
) -> tuple[Step, ...]:
    """Divide the time in [start, until) into steps of at most ``length``.

    Steps between ``first`` and ``last`` score as-ofs. Steps before and after this range only check traces. The time
    before ``earliest``, the start of the first trace's period, has no traces and does not count as length.
    """

    def stretch(begin: datetime, end: datetime, is_scored: bool) -> Iterator[Step]:
        while begin < end:
            step_end = min(max(begin, earliest) + length, end)
            yield Step(begin, step_end, begin if is_scored else step_end)
            begin = step_end

    scored_from = max(start, before(first, period))
    return (
        *stretch(start, scored_from, False),
        *stretch(scored_from, last, True),
        *stretch(max(start, last), until, False),
    )


def plan_backfill(
    connection: psycopg.Connection,
    project: Project,
    relations: Relations,
    first: datetime,
    last: datetime,
    *,
    step_days: int,
    allow_rescoring: bool,
    restart: bool,
) -> Backfill:
    """Plan the steps of a backfill of a range of as-ofs, or the remaining steps of an unfinished one.

    :param restart: start again, even if an earlier backfill of the range stopped before its end.
    :raises InputError: the range is empty, would leave a gap after the published scores, or is published.
    """
    period = as_of_time.PERIODS[project.variables.get("scoring_period", "day")]
    length = timedelta(days=step_days)
    if first > last:
        raise InputError(
            f"The range is empty: --from {as_of_time.text(first)} is after --to {as_of_time.text(last)}.",
            "--from is the first as-of to score, --to the last.",
        )
    state = _read_state(connection, relations)
    first_trace = _first_trace(connection, project, last)
    earliest = last if first_trace is None else first_trace - (first_trace - EPOCH) % period
    if (state.first, state.last) == (first, last) and state.reached < state.until and not restart:
        steps = plan_steps(state.reached, earliest, first, last, state.until, period, length)
        return Backfill(first, last, state.until, steps, is_resumed=True)

    if state.newest is None:
        start = min(earliest, before(first, period))
        until = last
    else:
        if first > state.newest + period:
            raise InputError(
                f"--from {as_of_time.text(first)} would leave a gap: the newest published as-of is "
                f"{as_of_time.text(state.newest)}.",
                f"Begin at {as_of_time.text(state.newest + period)} or earlier, or run without --from and --to first.",
            )
        if not allow_rescoring:
            _refuse_published(connection, relations, first, last)
        start = before(first, timedelta.max if state.longest_horizon is None else state.longest_horizon)
        until = max(last, state.newest)
    steps = plan_steps(start, earliest, first, last, until, period, length)
    return Backfill(first, last, until, steps, is_from_nothing=state.newest is None)


def unfinished_run(connection: psycopg.Connection, relations: Relations) -> datetime | None:
    """Return the as-of of the last run if this was an ordinary run that did not publish, after a run that published.
    After such a run, the marts may be from two runs. A backfill would correct the marts only in its range.
    """
    if not table_exists(connection, *relations.places["int_scoring_run"]):
        return None
    row = connection.execute(
        sql.SQL(
            """
            select run.as_of
            from {run} as run
            where
                run.backfill_first is null
                and not run.is_full_refresh
                and exists (select 1 from {log} as log where log.newest_as_of is not null)
                and to_jsonb(run) -> 'published_by' = 'null'
            """
        ).format(run=relations["int_scoring_run"], log=relations["int_runs"])
    ).fetchone()
    return None if row is None else row[0]


class _State(NamedTuple):
    """State that the last run left: the newest published as-of, and the range, end and progress of a backfill."""

    newest: datetime | None = None
    longest_horizon: timedelta | None = timedelta()
    """None in the table of an earlier version. The checks of the run then decide whether its rows can be kept."""
    first: datetime | None = None
    last: datetime | None = None
    """Last as-of of the backfill. None if the last run was not a backfill; `until` and `reached` are then unused."""
    until: datetime = datetime.max
    reached: datetime = datetime.max


def _read_state(connection: psycopg.Connection, relations: Relations) -> _State:
    if not table_exists(connection, *relations.places["int_scoring_run"]):
        return _State()
    query = sql.SQL(
        """
        select
            case when log.newest_as_of is not null then log.published_until end,
            (to_jsonb(run) ->> 'longest_horizon')::interval,
            log.backfill_first,
            log.backfill_last,
            log.backfill_until,
            log.backfill_reached
        from {log} as log
        cross join {run} as run
        where log.published_at is not null
        order by
            log.run_id = coalesce(
                to_jsonb(run) ->> 'published_by', to_jsonb(run) ->> 'published_before'
            )::uuid desc nulls last,
            log.published_at desc
        limit 1
        """
    ).format(log=relations["int_runs"], run=relations["int_scoring_run"])
    row = connection.execute(query).fetchone()
    return _State() if row is None else _State(*row)


def _refuse_published(
    connection: psycopg.Connection, relations: Relations, first: datetime, last: datetime
) -> None:
    query = sql.SQL(
        "select count(distinct as_of), min(as_of), max(as_of) from {} where as_of between %s and %s"
    )
    scores = relations["fct_capacity_scores"]
    n, oldest, newest = one_row(connection.execute(query.format(scores), [first, last]))
    if n:
        raise InputError(
            f"{n} as-ofs of the range are published in schema {relations.marts_schema}, "
            f"from {as_of_time.text(oldest)} to {as_of_time.text(newest)}.",
            "Add --allow-rescoring to score them again, or narrow the range.",
        )


def _first_trace(connection: psycopg.Connection, project: Project, last: datetime) -> datetime | None:
    """Return the time of the first trace from ciris_traces_from to ``last``, or None."""
    query = sql.SQL("select min(traced_at) from {} where traced_at >= %s and traced_at < %s")
    times = [as_of_time.traces_from(project.variables), last]
    earliest: datetime | None = one_row(
        connection.execute(query.format(traced_times(connection, project)), times)
    )[0]
    return earliest


def before(moment: datetime, length: timedelta) -> datetime:
    """Return the time that is ``length`` before ``moment``, or the earliest time that Python can represent."""
    return moment - min(length, moment - datetime.min.replace(tzinfo=UTC))
