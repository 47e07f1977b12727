"""The agents of a block: their rows are numbered in the database, and read by those numbers with their periods."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.statements import column_list
from ciris_scoring.statistics.alike import Scored
from ciris_scoring.statistics.episodes import Episodes
from ciris_scoring.statistics.fixed_copy import Numbers, read_numbers
from ciris_scoring.statistics.fleets import Block
from ciris_scoring.statistics.inputs import METRICS, Floats, Integers, PeriodSums, Rows
from ciris_scoring.statistics.resilience import N_BINS
from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.setting import Setting

READ_AGENT_PERIODS = 120_000
"""Agents times periods that are read at a time, some 250 MB with what reading takes: few, because the rows of an agent
lie scattered over its tables, so that every query reads most of their pages."""

KEPT_BYTES = 250_000_000
"""Of a block's sums that are kept between its two passes: 10,000 agents of 67 days take 110 MB."""

PERIOD_COLUMNS = {
    **dict.fromkeys(
        (
            "n_traces",
            "n_identity_changes",
            "n_overridden",
            "n_chain_valid",
            "n_replay_sampled",
            "n_replay_succeeded",
            "n_unsafe",
            "n_signals_corroborated",
            "n_signals_uncorroborated",
            "n_coherent_corroborated",
            "n_coherent_uncorroborated",
            "n_recoveries",
        ),
        Numbers("int4"),
    ),
    "n_fields_present": Numbers("int8"),
    **dict.fromkeys(("log_recovery_hours", "log_recovery_hours_squared"), Numbers("float8")),
    **dict.fromkeys(
        ("judged_by_bin", "successes_by_bin", *(f"{metric}_histogram" for metric in METRICS)),
        Numbers("int4", N_BINS),
    ),
    "confidence_by_bin": Numbers("float8", N_BINS),
}
"""Columns of ``int_agent_periods``, as they are read."""

REAL, COUNT = Numbers("float8"), Numbers("int8")
FACTS = {
    "mttr_hours": ("resilience.mttr_hours", REAL),
    "n_episodes": ("resilience.n_recoveries + resilience.n_open_episodes", COUNT),
    "rho_regression": ("resilience.rho_regression", REAL),
    "q_deferral": ("awareness.q_deferral", REAL),
    "n_judged_deferrals": ("awareness.n_judged_deferrals", COUNT),
    "mttr_hours_steady": ("resilience.mttr_hours_steady", REAL),
    "n_steady_episodes": ("resilience.n_steady_episodes", COUNT),
    "q_deferral_steady": ("awareness.q_deferral_steady", REAL),
    "n_steady_deferrals": ("awareness.n_steady_deferrals", COUNT),
    "i_chain": ("integrity.i_chain", REAL),
    "i_coverage": ("integrity.i_coverage", REAL),
    "i_replay": ("integrity.i_replay", REAL),
    "ece": ("awareness.ece", REAL),
    "q_deferral_before": ("coalesce(awareness.q_deferral_before, 1)", REAL),
    "n_deferrals_before": ("awareness.n_deferrals_before", COUNT),
    "log_hours": ("resilience.log_hours", REAL),
    "n_before": ("resilience.n_episodes_before", COUNT),
    "log_hours_before": ("resilience.log_hours_before", REAL),
    "log_hours_squared_before": ("resilience.log_hours_squared_before", REAL),
}
"""Of a row, by the names in :class:`Rows`, :class:`Episodes` and :class:`Published`: where it stands, and its type."""


class Relations(NamedTuple):
    """Where the statistics read: the relations of the models behind them, as dbt quotes them."""

    scoring_run: sql.SQL
    scoring_parameters: sql.SQL
    scoring_windows: sql.SQL
    statistics_inputs: sql.SQL
    integrity: sql.SQL
    resilience_inputs: sql.SQL
    incompleteness_awareness: sql.SQL
    agent_periods: sql.SQL


class Published(NamedTuple):
    """Of n rows as SQL sums them: exactly, so that a component that does not move is the same to the bit."""

    i_chain: Floats
    i_coverage: Floats
    i_replay: Floats
    ece: Floats
    q_deferral_before: Floats
    """Mean value of the deferrals of the days before the window; 1 where nothing was judged."""
    n_deferrals_before: Integers


class Batch(NamedTuple):
    """Some agents of a block."""

    sums: PeriodSums
    row_ids: Integers
    rows: Rows
    episodes: Episodes
    published: Published


def number_rows(session: Session, relations: Relations, block: Block) -> int:
    """Put the rows of a block into ``ciris_rows`` and its agents into ``ciris_agents``; return how many agents.

    :raises StepError: they are not those that the inputs' digests were made from.
    """
    facts = sql.SQL(", ").join(
        sql.SQL(f"({expression})::{kind.type} as {{}}").format(sql.Identifier(name))
        for name, (expression, kind) in FACTS.items()
    )
    session.execute(
        sql.SQL("""
        drop table if exists pg_temp.ciris_rows, pg_temp.ciris_agents;
        create temporary table ciris_rows on commit drop as
        select
            row_number() over (order by agent_id_hash collate "C", as_of, window_days) as row_id,
            dense_rank() over (order by agent_id_hash collate "C") - 1 as agent_number,
            agent_id_hash, as_of, window_days, fleets.inputs_digest, {facts}
        from ciris_fleets as fleets
        inner join {resilience} as resilience using (as_of, window_days)
        inner join {awareness} as awareness using (agent_id_hash, as_of, window_days)
        inner join {integrity} as integrity using (agent_id_hash, as_of, window_days)
        where
            fleets.as_of between %(first)s and %(last)s
            and resilience.as_of between %(first)s and %(last)s
            and awareness.as_of between %(first)s and %(last)s
            and integrity.as_of between %(first)s and %(last)s
        """).format(
            facts=facts,
            resilience=relations.resilience_inputs,
            awareness=relations.incompleteness_awareness,
            integrity=relations.integrity,
        ),
        {"first": block.fleets[0].as_of, "last": block.end},
    )
    session.execute(
        """
        create temporary table ciris_agents on commit drop as
        select distinct agent_number, agent_id_hash from ciris_rows;
        analyze ciris_rows;
        analyze ciris_agents
        """
    )
    [(found, n_agents)] = session.rows(
        "select (select count(*) from ciris_rows), (select count(*) from ciris_agents)"
    )
    expected = sum(fleet.n_agents for fleet in block.fleets)
    if found != expected:
        raise StepError(
            f"int_statistics_inputs was made from {expected} rows, but there are {found}. "
            "Run the whole build: dbt build"
        )
    return int(n_agents)


def agents_per_read(n_periods: int) -> int:
    """Agents to read at a time, so that they fit ``READ_AGENT_PERIODS``."""
    return max(READ_AGENT_PERIODS // n_periods, 1)


class BatchReader:
    """Reads agents of a block by their numbers.

    A block is gone through twice: what is read is kept as far as ``KEPT_BYTES`` go, counts in few bytes.
    """

    def __init__(self, session: Session, relations: Relations, setting: Setting, block: Block):
        self._session, self._relations, self._setting, self._block = session, relations, setting, block
        self._kept: dict[range, Batch] = {}
        self._room = KEPT_BYTES

    def read(self, agents: range) -> Batch:
        """Return sums and rows of these agents."""
        if agents in self._kept:
            batch = self._kept[agents]
            return batch._replace(sums=PeriodSums._make(map(_widened, batch.sums)))
        sums = _read_sums(self._session, self._relations, self._setting, self._block, agents)
        batch = Batch(sums, *_read_rows(self._session, self._setting, self._block, agents))
        narrow = batch._replace(sums=PeriodSums._make(map(_narrowed, sums)))
        self._room -= sum(
            values.nbytes for values in (*narrow.sums, *narrow.rows, *narrow.episodes, *narrow.published)
        )
        if self._room > 0:
            self._kept[agents] = narrow
        return batch


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Counts as unsigned integers of as few bytes as the largest takes; real numbers as they are."""
    return values.astype(np.min_scalar_type(values.max(initial=0))) if values.dtype == np.int64 else values


def _widened(values: NDArray[Any]) -> NDArray[Any]:
    """What ``_narrowed`` was made from."""
    return values.astype(np.int64) if values.dtype.kind == "u" else values


def chunks(batch: Batch, size: int) -> Iterator[Batch]:
    """Cut a batch into chunks of so many agents; their sums are views of the batch's."""
    for first in range(0, len(batch.sums.n_traces), size):
        chosen = np.flatnonzero((batch.rows.agent >= first) & (batch.rows.agent < first + size))
        rows = Rows._make(values[chosen] for values in batch.rows)
        yield Batch(
            PeriodSums._make(values[first : first + size] for values in batch.sums),
            batch.row_ids[chosen],
            rows._replace(agent=rows.agent - first),
            Episodes._make(values[chosen] for values in batch.episodes),
            Published._make(values[chosen] for values in batch.published),
        )


def _read_rows(
    session: Session, setting: Setting, block: Block, agents: range
) -> tuple[Integers, Rows, Episodes, Published]:
    """Numbers, facts, episodes and exact sums of a batch's rows."""
    query = sql.SQL("""
        select
            row_id, agent_number - %(first)s, (extract(epoch from as_of - %(origin)s) / %(period)s)::int8,
            array_position(%(windows)s::int4[], window_days)::int8 - 1, {facts}
        from ciris_rows
        where agent_number >= %(first)s and agent_number < %(last)s
        order by row_id
        """).format(facts=column_list(FACTS))
    parameters = {
        "first": agents.start,
        "last": agents.stop,
        "origin": block.origin,
        "period": setting.period.total_seconds(),
        "windows": [window.window_days for window in setting.windows],
    }
    places = dict.fromkeys(("row_id", "agent", "as_of", "window"), COUNT)
    facts = {name: kind for name, (_, kind) in FACTS.items()}
    columns = read_numbers(session, query, parameters, places | facts)
    compared = {name: columns.pop(name) for name in Episodes._fields if name != "n"}
    published = Published(**{name: columns.pop(name) for name in Published._fields})
    row_ids = columns.pop("row_id")
    rows = Rows(**columns)
    return row_ids, rows, Episodes(n=rows.n_episodes, **compared), published


def _read_sums(
    session: Session, relations: Relations, setting: Setting, block: Block, agents: range
) -> PeriodSums:
    """Sums of a batch's periods."""
    [(lowest, highest)] = session.rows(
        "select min(agent_id_hash), max(agent_id_hash) from ciris_agents"
        " where agent_number >= %s and agent_number < %s",
        [agents.start, agents.stop],
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
    columns = {"agent": Numbers("int8"), "period": Numbers("int8"), **PERIOD_COLUMNS}
    found = read_numbers(session, _sums_query(relations.agent_periods), parameters, columns)
    agent, period = found.pop("agent"), found.pop("period")
    shape = (len(agents), block.n_periods(setting))

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        """From rows of periods to an array of agents and periods, 0 where there is no row."""
        array = np.zeros(shape + values.shape[1:], dtype=values.dtype)
        array[agent, period] = values
        return array

    sums = {name: spread(values) for name, values in found.items()}
    return PeriodSums(
        n_judged=sums.pop("judged_by_bin"),
        sum_confidence=sums.pop("confidence_by_bin"),
        n_successes=sums.pop("successes_by_bin"),
        histograms=np.stack([sums.pop(f"{metric}_histogram") for metric in METRICS], axis=2),
        **sums,
    )


def read_scored(
    session: Session, relations: Relations, setting: Setting, block: Block, agents: range
) -> Scored:
    """Scores of a batch's traces, of all periods that a window of the block holds.

    A period's scores come as PostgreSQL sends an array: a head of 20 bytes, then 4 of length before each number.
    """
    query = sql.SQL("""
        select
            agents.agent_number - %(first)s,
            (extract(epoch from periods.period_start - %(origin)s) / %(period)s)::int8,
            cardinality(periods.score_triples),
            substr(array_send(periods.score_triples), 21)
        from {periods} as periods
        inner join ciris_agents as agents using (agent_id_hash)
        where
            agents.agent_number >= %(first)s and agents.agent_number < %(last)s
            and periods.period_start >= %(begin)s and periods.period_start < %(end)s
            and periods.score_triples is not null
        """).format(periods=relations.agent_periods)
    longest = timedelta(days=max(window.window_days for window in setting.windows))
    parameters = {
        "first": agents.start,
        "last": agents.stop,
        "origin": block.origin,
        "period": setting.period.total_seconds(),
        "begin": block.fleets[0].as_of - longest,
        "end": block.end,
    }
    rows = session.rows(query, parameters)
    places = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    triples = np.frombuffer(b"".join(row[3] for row in rows), dtype=">i4")[1::2].astype(np.int64)
    agent, period = np.repeat(places[:, :2], places[:, 2], axis=0).T
    return Scored(agent, period, triples)


def _sums_query(agent_periods: sql.SQL) -> sql.Composed:
    """Query for the sums of a batch; the table is read by an index of its own, on agents or on times."""
    return sql.SQL("""
        select
            agents.agent_number - %(first)s,
            (extract(epoch from periods.period_start - %(origin)s) / %(period)s)::int8,
            {columns}
        from {periods} as periods
        inner join ciris_agents as agents using (agent_id_hash)
        where
            agents.agent_number >= %(first)s and agents.agent_number < %(last)s
            and periods.agent_id_hash between %(lowest)s and %(highest)s
            and periods.period_start >= %(origin)s and periods.period_start < %(end)s
        """).format(
        columns=sql.SQL(", ").join(
            column.cast(sql.Identifier("periods", name)) for name, column in PERIOD_COLUMNS.items()
        ),
        periods=agent_periods,
    )
