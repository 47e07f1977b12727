"""The whole step of the intervals, in one transaction."""

import time

import psycopg

from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.intervals import (
    FleetSums,
    FleetValues,
    agents_per_chunk,
    compute_intervals,
    empty_fleet_sums,
    fleet_values,
    joined_sums,
    sum_fleet,
)
from ciris_scoring.steps.limits.block import BLOCK_PERIODS, Block, blocks
from ciris_scoring.steps.limits.reading import Batch, BatchReader, chunks, create_row_tables, number_rows
from ciris_scoring.steps.limits.setting import Setting, read_setting
from ciris_scoring.steps.limits.waiting import NEEDED, delete_replaced, find_waiting, require_same
from ciris_scoring.steps.limits.writing import (
    add_limits,
    create_limit_table,
    write_fleet_values,
    write_limits,
)
from ciris_scoring.steps.step import (
    ANALYZE_ROWS,
    Report,
    StepResult,
    analyze,
    one_transaction,
    require_published_parameters,
    require_relations,
)

READ_AGENT_PERIODS = 120_000
"""Agents times periods that are read at a time, some 250 MB with what reading takes: few, because the rows of an agent
lie scattered over its tables, so that every query reads most of their pages."""

REPORT_SECONDS = 2.0
"""Between two lines of progress, at least."""


class _Progress:
    """Lines of progress, the first after ``REPORT_SECONDS``."""

    def __init__(self, total: int, report: Report):
        self._total, self._report = total, report
        self._done, self._last = 0, time.monotonic()

    def add(self, n: int) -> None:
        self._done += n
        if time.monotonic() - self._last > REPORT_SECONDS:
            self._last = time.monotonic()
            self._report(f"intervals: {self._done:,} of {self._total:,} rows computed")


def run_limits_step(
    connection: psycopg.Connection,
    relations: Relations,
    *,
    chunk_agents: int | None = None,
    read_agents: int | None = None,
    block_periods: int = BLOCK_PERIODS,
    report: Report = lambda line: None,
) -> StepResult:
    """Compute the limits of every fleet that waits, in one transaction.

    :param connection: not inside a transaction; its role may create temporary tables, read the inputs, and insert and
        delete in ``int_score_limits`` and ``int_interval_fleet_values``.
    :param relations: where the project's models are.
    :param chunk_agents: agents to compute at a time, and ``read_agents`` to read; by default as many as fit.
    :param block_periods: periods between the first and the last as-of of a block.
    :param report: is given lines of progress, while it takes long.
    :raises StepError: a relation is missing or does not keep the contract; nothing was changed.
    :raises psycopg.Error: the database failed; nothing was changed.
    """
    started = time.monotonic()
    with one_transaction(connection) as cursor:
        require_relations(cursor, relations, NEEDED)
        require_published_parameters(cursor, relations)
        fleets = find_waiting(cursor, relations)
        deleted = delete_replaced(cursor, relations)
        waiting = sum(fleet.n_agents for fleet in fleets)
        progress = _Progress(waiting, report)
        if fleets:
            setting = read_setting(cursor, relations)
            require_same(cursor, setting)
            cursor.execute("set local jit = off")
            cursor.execute("set local enable_nestloop = off")  # it takes agents and periods for independent
            create_row_tables(cursor)
            create_limit_table(cursor)
            for block in blocks(fleets, setting, block_periods):
                _compute_block(cursor, relations, setting, block, chunk_agents, read_agents, progress)
    if waiting + deleted >= ANALYZE_ROWS:
        analyze(connection, relations["int_score_limits"])
    return StepResult(waiting, waiting, deleted, time.monotonic() - started)


def _compute_block(
    cursor: psycopg.Cursor,
    relations: Relations,
    setting: Setting,
    block: Block,
    chunk_agents: int | None,
    read_agents: int | None,
    progress: _Progress,
) -> None:
    """Compute and write the limits and values of a block's fleets, in two passes over its agents."""
    n_agents = number_rows(cursor, relations, block)
    n_periods = block.n_periods(setting)
    chunk_agents = chunk_agents or agents_per_chunk(n_periods)
    read_agents = read_agents or max(READ_AGENT_PERIODS // n_periods, 1)
    batches = [range(first, min(first + read_agents, n_agents)) for first in range(0, n_agents, read_agents)]
    reader = BatchReader(cursor, relations, setting, block)

    shared = empty_fleet_sums(len(setting.windows), n_periods)
    for agents in batches:
        shared = _with_sums_of(shared, reader.read(agents), setting, chunk_agents)
    values = fleet_values(shared)
    for agents in batches:
        _compute_limits(cursor, reader.read(agents), values, setting, chunk_agents, progress)
    write_limits(cursor, relations)
    write_fleet_values(cursor, relations, setting, block, values)


def _with_sums_of(shared: FleetSums, batch: Batch, setting: Setting, chunk_agents: int) -> FleetSums:
    """Add what the agents of a batch show to what the fleets' others do."""
    for chunk in chunks(batch, chunk_agents):
        sums = sum_fleet(chunk.sums, chunk.rows, setting.windows, periods_per_day=setting.periods_per_day)
        shared = joined_sums(shared, sums)
    return shared


def _compute_limits(
    cursor: psycopg.Cursor,
    batch: Batch,
    values: FleetValues,
    setting: Setting,
    chunk_agents: int,
    progress: _Progress,
) -> None:
    """Compute the limits of a batch's rows, with what the fleets show."""
    for chunk in chunks(batch, chunk_agents):
        limits = compute_intervals(
            chunk.sums,
            chunk.rows,
            setting.windows,
            setting.parameters,
            values,
            periods_per_day=setting.periods_per_day,
        )
        add_limits(cursor, chunk.row_ids, limits)
        progress.add(len(chunk.row_ids))
