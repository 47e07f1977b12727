"""The agents of a block: their rows are numbered in the database, and read by those numbers with their periods."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.fixed_copy import read_numbers
from ciris_scoring.steps.intervals import PeriodSums, Rows
from ciris_scoring.steps.intervals.inputs import Integers
from ciris_scoring.steps.limits.block import Block
from ciris_scoring.steps.limits.setting import Setting
from ciris_scoring.steps.resilience import N_BINS
from ciris_scoring.steps.resilience_step import METRICS
from ciris_scoring.steps.step import FIRST_HALF_HINT

COUNTS = (
    "n_traces",
    "n_identity_changes",
    "n_overridden",
    "n_chain_valid",
    "n_fields_present",
    "n_replay_sampled",
    "n_replay_succeeded",
    "n_unsafe",
    "n_signals_corroborated",
    "n_signals_uncorroborated",
    "n_coherent_corroborated",
    "n_coherent_uncorroborated",
    "n_recoveries",
)
"""Counts of ``int_agent_periods``, by their names in ``PeriodSums``."""

BINS = ("judged_by_bin", "successes_by_bin", *(f"{metric}_histogram" for metric in METRICS))
"""Its arrays of counts by bin."""


class Batch(NamedTuple):
    """Some agents of a block."""

    sums: PeriodSums
    row_ids: Integers
    rows: Rows


def create_row_tables(cursor: psycopg.Cursor) -> None:
    """Create the temporary tables of a block's rows and agents."""
    cursor.execute(
        """
        create temporary table ciris_rows (
            row_id int8, agent_number int8, agent_id_hash text, as_of timestamptz, window_days int4, inputs_digest text,
            mttr_hours float8, n_episodes int8, rho_regression float8, q_deferral float8, n_judged_deferrals int8
        ) on commit drop;
        create temporary table ciris_agents (agent_number int8, agent_id_hash text) on commit drop;
        """
    )


def number_rows(cursor: psycopg.Cursor, relations: Relations, block: Block) -> int:
    """Put the rows of a block into ``ciris_rows`` and its agents into ``ciris_agents``; return how many agents.

    :raises StepError: they are not those that the inputs' digests were made from.
    """
    cursor.execute("truncate ciris_rows, ciris_agents")
    cursor.execute(
        sql.SQL("""
        insert into ciris_rows
        select
            row_number() over (order by agent_id_hash, as_of, window_days),
            dense_rank() over (order by agent_id_hash) - 1,
            agent_id_hash, as_of, window_days, fleets.inputs_digest,
            inputs.mttr_hours, inputs.n_recoveries + inputs.n_open_episodes, inputs.rho_regression,
            awareness.q_deferral, awareness.n_judged_deferrals
        from ciris_fleets as fleets
        inner join {inputs} as inputs using (as_of, window_days)
        inner join {awareness} as awareness using (agent_id_hash, as_of, window_days)
        where
            fleets.inputs_digest is not null
            and fleets.as_of between %(first)s and %(last)s
            and inputs.as_of between %(first)s and %(last)s
            and awareness.as_of between %(first)s and %(last)s
        """).format(
            inputs=relations["int_resilience_inputs"],
            awareness=relations["int_incompleteness_awareness"],
        ),
        {"first": block.fleets[0].as_of, "last": block.end},
    )
    found, expected = cursor.rowcount, sum(fleet.n_agents for fleet in block.fleets)
    if found != expected:
        raise StepError(
            f"int_interval_inputs was made from {expected} scored rows, but there are {found}.",
            FIRST_HALF_HINT,
        )
    cursor.execute("insert into ciris_agents select distinct agent_number, agent_id_hash from ciris_rows")
    n_agents = cursor.rowcount
    cursor.execute("analyze ciris_rows; analyze ciris_agents")
    return n_agents


class BatchReader:
    """Reads agents of a block by their numbers; it keeps what it has read last, and no more, for there is no room."""

    def __init__(self, cursor: psycopg.Cursor, relations: Relations, setting: Setting, block: Block):
        self._cursor, self._relations, self._setting, self._block = cursor, relations, setting, block
        self._last: tuple[range, Batch] | None = None

    def read(self, agents: range) -> Batch:
        """Return sums and rows of these agents."""
        if self._last is None or self._last[0] != agents:
            self._last = None  # before the next one is read
            sums = _read_sums(self._cursor, self._relations, self._setting, self._block, agents)
            rows = _read_rows(self._cursor, self._setting, self._block, agents)
            self._last = agents, Batch(sums, *rows)
        return self._last[1]


def chunks(batch: Batch, size: int) -> Iterator[Batch]:
    """Cut a batch into chunks of so many agents; their sums are views of the batch's."""
    for first in range(0, len(batch.sums.n_traces), size):
        chosen = np.flatnonzero((batch.rows.agent >= first) & (batch.rows.agent < first + size))
        rows = Rows._make(values[chosen] for values in batch.rows)
        yield Batch(
            PeriodSums._make(values[first : first + size] for values in batch.sums),
            batch.row_ids[chosen],
            rows._replace(agent=rows.agent - first),
        )


def _read_rows(
    cursor: psycopg.Cursor, setting: Setting, block: Block, agents: range
) -> tuple[Integers, Rows]:
    """Numbers and facts of a batch's rows."""
    query = sql.SQL("""
        select
            array[
                row_id, agent_number - %(first)s, (extract(epoch from as_of - %(origin)s) / %(period)s)::int8,
                array_position(%(windows)s::int4[], window_days) - 1, n_episodes, n_judged_deferrals
            ]::int8[],
            array[mttr_hours, rho_regression, q_deferral]
        from ciris_rows
        where agent_number >= %(first)s and agent_number < %(last)s
        order by row_id
        """)
    parameters = {
        "first": agents.start,
        "last": agents.stop,
        "origin": block.origin,
        "period": setting.period.total_seconds(),
        "windows": [window.window_days for window in setting.windows],
    }
    integers, floats = read_numbers(cursor, query, parameters, 6, 3)
    row_id, agent, as_of, window, n_episodes, n_judged_deferrals = integers.T
    mttr_hours, rho_regression, q_deferral = floats.T
    return row_id, Rows(
        agent, as_of, window, mttr_hours, n_episodes, rho_regression, q_deferral, n_judged_deferrals
    )


def _read_sums(
    cursor: psycopg.Cursor, relations: Relations, setting: Setting, block: Block, agents: range
) -> PeriodSums:
    """Sums of a batch's periods."""
    lowest, highest = one_row(
        cursor.execute(
            "select min(agent_id_hash), max(agent_id_hash) from ciris_agents"
            " where agent_number >= %s and agent_number < %s",
            [agents.start, agents.stop],
        )
    )
    parameters = {
        "first": agents.start,
        "last": agents.stop,
        "lowest": lowest,
        "highest": highest,
        "origin": block.origin,
        "end": block.end,
        "period": setting.period.total_seconds(),
    }
    integers, floats = read_numbers(
        cursor, _sums_query(relations), parameters, 2 + len(COUNTS) + len(BINS) * N_BINS, N_BINS + 2
    )
    agent, period = integers[:, 0], integers[:, 1]
    shape = (len(agents), block.n_periods(setting))

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        """From rows of periods to an array of agents and periods, 0 where there is no row."""
        array = np.zeros(shape + values.shape[1:], dtype=values.dtype)
        array[agent, period] = values
        return array

    counts = dict(zip(COUNTS, integers[:, 2 : 2 + len(COUNTS)].T, strict=True))
    bins = integers[:, 2 + len(COUNTS) :].reshape(-1, len(BINS), N_BINS)
    return PeriodSums(
        **{name: spread(values) for name, values in counts.items()},
        n_judged=spread(bins[:, 0]),
        sum_confidence=spread(floats[:, :N_BINS]),
        n_successes=spread(bins[:, 1]),
        histograms=spread(bins[:, 2:]),
        log_recovery_hours=spread(floats[:, N_BINS]),
        log_recovery_hours_squared=spread(floats[:, N_BINS + 1]),
    )


def _sums_query(relations: Relations) -> sql.Composed:
    """Query for the sums of a batch; the table is read by an index of its own, on agents or on times."""
    return sql.SQL("""
        select
            array[
                agents.agent_number - %(first)s,
                (extract(epoch from periods.period_start - %(origin)s) / %(period)s)::int8,
                {counts}
            ]::int8[] || {bins},
            periods.confidence_by_bin::float8[]
            || array[periods.log_recovery_hours::float8, periods.log_recovery_hours_squared::float8]
        from {periods} as periods
        inner join ciris_agents as agents using (agent_id_hash)
        where
            agents.agent_number >= %(first)s and agents.agent_number < %(last)s
            and periods.agent_id_hash between %(lowest)s and %(highest)s
            and periods.period_start >= %(origin)s and periods.period_start < %(end)s
        """).format(
        counts=sql.SQL(", ").join(sql.Identifier("periods", name) for name in COUNTS),
        bins=sql.SQL(" || ").join(
            sql.SQL("{}::int8[]").format(sql.Identifier("periods", column)) for column in BINS
        ),
        periods=relations["int_agent_periods"],
    )
