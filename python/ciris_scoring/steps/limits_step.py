"""The step of the intervals: from sums per agent and period in the database to the limits of scores, and back.

dbt builds ``int_interval_inputs``, one digest per as-of and window, and owns the tables ``int_interval_fleet_values``
and ``int_score_limits``. A *fleet* is all agents with a row at an
as-of and window. It *waits* while no values are stored for it with the digest of its inputs: what the fleet shows
enters the limits of each of its agents, so they are computed together. The step computes the waiting fleets and
deletes those whose inputs are gone, in one transaction: afterwards there is one row of limits per row of resilience
inputs, or nothing has changed. Running it again finds nothing waiting.

As-ofs are taken in blocks, so that arrays of periods do not grow with the history, and the agents of a block in
batches and chunks. Each block takes two passes over them: the fleet's sums, then the limits. Only numbers travel, by
COPY in binary.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.fixed_copy import read_numbers, write_numbers
from ciris_scoring.steps.intervals import (
    COMPONENTS,
    LEVEL_95,
    METHOD_VERSION,
    FleetValues,
    Intervals,
    Parameters,
    PeriodSums,
    Rows,
    Window,
    agents_per_chunk,
    compute_intervals,
    empty_fleet_sums,
    fleet_values,
    joined_sums,
    sum_fleet,
)
from ciris_scoring.steps.intervals.residuals import EFFECTS
from ciris_scoring.steps.resilience import N_BINS
from ciris_scoring.steps.resilience_step import KEY, METRICS
from ciris_scoring.steps.step import (
    ANALYZE_ROWS,
    FIRST_HALF_HINT,
    Report,
    StepResult,
    analyze,
    column_list,
    one_transaction,
    read_parameter_texts,
    require_published_parameters,
    require_relations,
)

FLEET_KEY = ("as_of", "window_days")

BLOCK_PERIODS = 4_000
"""Periods between the first and the last as-of of a block, at most; the longest memory comes on top."""

READ_AGENT_PERIODS = 120_000
"""Agents times periods that are read at a time, some 250 MB with what reading takes: few, because the rows of an agent
lie scattered over its tables, so that every query reads most of their pages."""

REPORT_SECONDS = 2.0
"""Between two lines of progress, at least."""

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

FACTOR_SCORES = ("c_score", "i_int_score", "r_score", "i_inc_score", "s_score")
"""The columns of the factors, in the order of ``FACTORS``."""

WITHOUT_DESIGN_EFFECT = ("mttr_hours", "q_deferral")

NEEDED = ("int_interval_inputs", "int_interval_fleet_values", "int_score_limits")
"""What must be there. Where something waits, the others are, because it was made from them."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Setting(NamedTuple):
    """What limits are computed with, whatever the data."""

    parameters: Parameters
    windows: tuple[Window, ...]
    period: timedelta
    spelling: str
    """As the inputs have it in ``step_parameters``."""

    @property
    def periods_per_day(self) -> int:
        """1 or 24."""
        return timedelta(days=1) // self.period

    @property
    def longest_memory(self) -> timedelta:
        """Time before an as-of that some row depends on."""
        return timedelta(days=max(window.memory_days for window in self.windows))


class Fleet(NamedTuple):
    """The agents with a row at an as-of and window."""

    as_of: datetime
    window_days: int
    inputs_digest: str
    n_agents: int


class Batch(NamedTuple):
    """Some agents of a block."""

    sums: PeriodSums
    row_ids: Integers
    rows: Rows


class Block(NamedTuple):
    """Fleets of as-ofs that lie close together, and the arrays of periods that hold their memories."""

    fleets: tuple[Fleet, ...]
    origin: datetime
    """Start of the arrays' first period."""

    @property
    def end(self) -> datetime:
        """The last as-of."""
        return self.fleets[-1].as_of


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
        fleets = _find_waiting(cursor, relations)
        deleted = _delete_replaced(cursor, relations)
        waiting = sum(fleet.n_agents for fleet in fleets)
        progress = _Progress(waiting, report)
        if fleets:
            setting = read_setting(cursor, relations)
            _require_same(cursor, relations, setting)
            _create_scratch_tables(cursor)
            for block in blocks(fleets, setting, block_periods):
                _compute_block(cursor, relations, setting, block, chunk_agents, read_agents, progress)
    if waiting + deleted >= ANALYZE_ROWS:
        analyze(connection, relations["int_score_limits"])
    return StepResult(waiting, waiting, deleted, time.monotonic() - started)


def first_waiting(connection: psycopg.Connection, relations: Relations) -> datetime:
    """The first as-of at which something may wait for Python: of those that the last run scored, or one left before it.

    What an agent's limits are made from holds what its R is made from, so that whatever waits shows in the fleets' few
    digests.

    :returns: the end of all days when nothing does.
    :raises StepError: a relation is missing.
    """
    with connection.transaction(), connection.cursor() as cursor:
        require_relations(cursor, relations, (*NEEDED, "int_scoring_run"))
        query = sql.SQL("""
            select min(as_of)
            from {inputs} as inputs
            full join {fleet_values} as fleet_values using ({key})
            where
                as_of > (select run.cutoff from {scoring_run} as run)
                or fleet_values.inputs_digest is distinct from inputs.inputs_digest
            """).format(
            key=column_list(FLEET_KEY),
            inputs=relations["int_interval_inputs"],
            fleet_values=relations["int_interval_fleet_values"],
            scoring_run=relations["int_scoring_run"],
        )
        [first] = one_row(cursor.execute(query))
    return first or datetime.max.replace(tzinfo=UTC)


def read_setting(cursor: psycopg.Cursor, relations: Relations) -> Setting:
    """Read the parameters, the windows and the length of a period that the first half of the run used.

    :raises StepError: a parameter is missing or not what it should be.
    """
    texts = read_parameter_texts(cursor, relations, Parameters._fields)
    values: dict[str, float | int | bool] = {}
    for name, default in Parameters._field_defaults.items():
        text = texts.get(name) or ""
        try:
            values[name] = _is_true(text) if isinstance(default, bool) else type(default)(text)
        except ValueError as error:
            raise StepError(
                f"int_scoring_parameters: {name} is {texts.get(name, 'missing')!r}, "
                "which the step of the intervals cannot use.",
                "Rebuild it: dbt build --select int_scoring_parameters",
            ) from error
    windows = cursor.execute(
        sql.SQL("select window_days, baseline_days, coherence_days from {} order by window_days").format(
            relations["scoring_windows"]
        )
    ).fetchall()
    [scoring_period] = one_row(
        cursor.execute(sql.SQL("select scoring_period from {}").format(relations["int_scoring_run"]))
    )
    hours = {"day": 24, "hour": 1}[scoring_period]
    spelling = (str(METHOD_VERSION), str(hours), *(str(texts[name]) for name in Parameters._fields))
    return Setting(
        Parameters(**values),  # type: ignore[arg-type]
        tuple(Window(*window) for window in windows),
        timedelta(hours=hours),
        "|".join(spelling),
    )


def _is_true(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def blocks(fleets: Sequence[Fleet], setting: Setting, block_periods: int = BLOCK_PERIODS) -> Iterator[Block]:
    """Cut fleets into blocks, where as-ofs lie apart by more than any memory, and where a block gets too long.

    :param fleets: in the order of their as-ofs.
    """
    part: list[Fleet] = []
    for fleet in fleets:
        if part and (
            fleet.as_of - part[-1].as_of > setting.longest_memory
            or fleet.as_of - part[0].as_of > block_periods * setting.period
        ):
            yield Block(tuple(part), part[0].as_of - setting.longest_memory)
            part = []
        part.append(fleet)
    if part:
        yield Block(tuple(part), part[0].as_of - setting.longest_memory)


# --- What waits ----------------------------------------------------------------------------------------------------


def _find_waiting(cursor: psycopg.Cursor, relations: Relations) -> list[Fleet]:
    """Put the fleets that differ between inputs and values into the temporary table ``ciris_fleets``.

    That is, waiting ones, and ones that are gone, with null for a digest.

    :returns: the waiting ones, in the order of their as-ofs.
    """
    cursor.execute(
        sql.SQL("""
        create temporary table ciris_fleets on commit drop as
        select {key}, inputs.inputs_digest, inputs.n_agents, inputs.step_parameters
        from {inputs} as inputs
        full join {fleet_values} as fleet_values using ({key})
        where fleet_values.as_of is null or fleet_values.inputs_digest is distinct from inputs.inputs_digest
        """).format(
            key=column_list(FLEET_KEY),
            inputs=relations["int_interval_inputs"],
            fleet_values=relations["int_interval_fleet_values"],
        )
    )
    cursor.execute("analyze ciris_fleets")
    cursor.execute(
        "select as_of, window_days, inputs_digest, n_agents from ciris_fleets"
        " where inputs_digest is not null order by as_of, window_days"
    )
    return [Fleet(*row) for row in cursor.fetchall()]


def _require_same(cursor: psycopg.Cursor, relations: Relations, setting: Setting) -> None:
    """Refuse inputs that were made for other parameters, or by another version of the method.

    :raises StepError: names both.
    """
    cursor.execute(
        "select count(*), min(step_parameters) from ciris_fleets"
        " where inputs_digest is not null and step_parameters is distinct from %s",
        [setting.spelling],
    )
    foreign, theirs = one_row(cursor)
    if foreign:
        raise StepError(
            f"{foreign} rows of int_interval_inputs were made for other parameters, or by another version of "
            f"the project ({theirs}), than those in force ({setting.spelling}).",
            FIRST_HALF_HINT,
        )


def _delete_replaced(cursor: psycopg.Cursor, relations: Relations) -> int:
    """Delete the limits and values of fleets that differ; return how many limits go without being replaced."""
    in_fleets = sql.SQL("delete from {} where ({}) in (select {} from ciris_fleets where {})")

    def delete(table: str, condition: str) -> int:
        cursor.execute(
            in_fleets.format(
                relations[table],
                column_list(FLEET_KEY),
                column_list(FLEET_KEY),
                sql.SQL(condition),
            )
        )
        return cursor.rowcount

    gone = delete("int_score_limits", "inputs_digest is null")
    delete("int_score_limits", "inputs_digest is not null")
    delete("int_interval_fleet_values", "true")
    return gone


# --- One block -----------------------------------------------------------------------------------------------------


def _create_scratch_tables(cursor: psycopg.Cursor) -> None:
    cursor.execute("set local jit = off")
    cursor.execute("set local enable_nestloop = off")  # it takes agents and periods for independent
    cursor.execute(
        """
        create temporary table ciris_rows (
            row_id int8, agent_number int8, agent_id_hash text, as_of timestamptz, window_days int4, inputs_digest text,
            mttr_hours float8, n_episodes int8, rho_regression float8, q_deferral float8, n_judged_deferrals int8
        ) on commit drop;
        create temporary table ciris_agents (agent_number int8, agent_id_hash text) on commit drop;
        """
    )
    numbers = sql.SQL(", ").join(sql.SQL("{} float8").format(sql.Identifier(c)) for c in _limit_columns())
    cursor.execute(
        sql.SQL("create temporary table ciris_limits (row_id int8, driver int8, {}) on commit drop").format(
            numbers
        )
    )


def _compute_block(
    cursor: psycopg.Cursor,
    relations: Relations,
    setting: Setting,
    block: Block,
    chunk_agents: int | None,
    read_agents: int | None,
    progress: _Progress,
) -> None:
    """Compute and write the limits and values of a block's fleets."""
    n_agents = _number_rows(cursor, relations, block)
    n_periods = (block.end - block.origin) // setting.period
    chunk_agents = chunk_agents or agents_per_chunk(n_periods)
    read_agents = read_agents or max(READ_AGENT_PERIODS // n_periods, 1)
    batches = [(first, min(first + read_agents, n_agents)) for first in range(0, n_agents, read_agents)]
    per_day = setting.periods_per_day

    shared = empty_fleet_sums(len(setting.windows), n_periods)
    last_read: Batch | None = None
    for agents in batches:
        last_read = None  # before the next one is read
        last_read = _read_batch(cursor, relations, setting, block, agents)
        for chunk in _chunks(last_read, chunk_agents):
            sums = sum_fleet(chunk.sums, chunk.rows, setting.windows, periods_per_day=per_day)
            shared = joined_sums(shared, sums)
    values = fleet_values(shared)
    for agents in reversed(batches):  # the last one is still there
        batch = last_read or _read_batch(cursor, relations, setting, block, agents)
        last_read = None
        for chunk in _chunks(batch, chunk_agents):
            limits = compute_intervals(
                chunk.sums, chunk.rows, setting.windows, setting.parameters, values, periods_per_day=per_day
            )
            write_numbers(cursor, "ciris_limits", {"row_id": chunk.row_ids, **_columns_of(limits)})
            progress.add(len(chunk.row_ids))
        del batch
    _write_limits(cursor, relations)
    _write_fleet_values(cursor, relations, setting, block, values)


def _number_rows(cursor: psycopg.Cursor, relations: Relations, block: Block) -> int:
    """Put the rows of a block into ``ciris_rows`` and its agents into ``ciris_agents``; return how many agents.

    :raises StepError: they are not those that the inputs' digests were made from.
    """
    cursor.execute("truncate ciris_rows, ciris_agents, ciris_limits")
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


def _read_batch(
    cursor: psycopg.Cursor, relations: Relations, setting: Setting, block: Block, agents: tuple[int, int]
) -> Batch:
    """Sums and rows of agents ``agents[0]`` up to, but without, ``agents[1]``."""
    sums = _read_sums(cursor, relations, setting, block, agents)
    return Batch(sums, *_read_rows(cursor, setting, block, agents))


def _chunks(batch: Batch, size: int) -> Iterator[Batch]:
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
    cursor: psycopg.Cursor, setting: Setting, block: Block, agents: tuple[int, int]
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
        "first": agents[0],
        "last": agents[1],
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
    cursor: psycopg.Cursor, relations: Relations, setting: Setting, block: Block, agents: tuple[int, int]
) -> PeriodSums:
    """Sums of a batch's periods."""
    lowest, highest = one_row(
        cursor.execute(
            "select min(agent_id_hash), max(agent_id_hash) from ciris_agents"
            " where agent_number >= %s and agent_number < %s",
            agents,
        )
    )
    parameters = {
        "first": agents[0],
        "last": agents[1],
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
    shape = (agents[1] - agents[0], (block.end - block.origin) // setting.period)

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


# --- What is written -----------------------------------------------------------------------------------------------


def _limit_columns() -> list[str]:
    """Columns of limits and design effects, in the order in which they are written."""
    limited = ["capacity_score", *FACTOR_SCORES, *(c for c in COMPONENTS if c not in FACTOR_SCORES)]
    return [f"{name}_{side}" for name in limited for side in ("low", "high")] + [
        f"{component}_design_effect" for component in COMPONENTS if component not in WITHOUT_DESIGN_EFFECT
    ]


def _columns_of(limits: Intervals) -> dict[str, Integers | Floats]:
    """Limits and design effects by column, NaN for null, and the driver's index."""
    columns: dict[str, Integers | Floats] = {
        "driver": limits.interval_driver,
        "capacity_score_low": limits.capacity_score_low,
        "capacity_score_high": limits.capacity_score_high,
    }
    for index, component in enumerate(COMPONENTS):
        columns[f"{component}_low"] = limits.component_low[:, index]
        columns[f"{component}_high"] = limits.component_high[:, index]
        columns[f"{component}_design_effect"] = limits.design_effect[:, index]
    for index, score in enumerate(
        FACTOR_SCORES
    ):  # S is a factor and its own component: the factor's limits count
        columns[f"{score}_low"] = limits.factor_low[:, index]
        columns[f"{score}_high"] = limits.factor_high[:, index]
    return {name: columns[name] for name in ("driver", *_limit_columns())}


def _write_limits(cursor: psycopg.Cursor, relations: Relations) -> None:
    """Take what is in ``ciris_limits`` into the table of limits."""
    names = _limit_columns()
    cursor.execute(
        sql.SQL("""
        insert into {limits} ({key}, inputs_digest, {names}, interval_driver, computed_at)
        select {key}, inputs_digest, {values}, (%s::text[])[driver + 1], now()
        from ciris_limits
        inner join ciris_rows using (row_id)
        """).format(
            limits=relations["int_score_limits"],
            key=column_list(KEY),
            names=column_list(names),
            values=sql.SQL(", ").join(sql.SQL("nullif({}, 'NaN')").format(sql.Identifier(n)) for n in names),
        ),
        [list(COMPONENTS)],
    )


def _write_fleet_values(
    cursor: psycopg.Cursor, relations: Relations, setting: Setting, block: Block, values: FleetValues
) -> None:
    """Write what the limits of a block's fleets took from them."""
    names = (
        *(*FLEET_KEY, "inputs_digest", "n_agents"),
        *(f"{effect}_correlation" for effect in EFFECTS),
        *("episode_cv", "z_worse", "z_better", "method_version", "computed_at"),
    )
    now = one_row(cursor.execute("select now()"))[0]
    index_of = {window.window_days: index for index, window in enumerate(setting.windows)}
    statement = sql.SQL("copy {} ({}) from stdin").format(
        relations["int_interval_fleet_values"], column_list(names)
    )
    with cursor.copy(statement) as copy:
        for fleet in block.fleets:
            at = (index_of[fleet.window_days], (fleet.as_of - block.origin) // setting.period)
            icc, episode_cv = values.icc[at].tolist(), float(values.episode_cv[at])
            copy.write_row((*fleet, *icc, episode_cv, *LEVEL_95, METHOD_VERSION, now))


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
