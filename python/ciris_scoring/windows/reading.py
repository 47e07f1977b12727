"""Read the input of the Python models ``int_windows`` and ``fct_score_certainty``: sums per agent and period, scores of
traces, deferrals and fragile episodes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.windows.blocks import Block, blocks
from ciris_scoring.windows.drift import N_BINS
from ciris_scoring.windows.inputs import DAYS_TO_JUDGE, FIELDS, METRICS, Integers, PeriodSums, Places
from ciris_scoring.windows.session import Numbers, Session
from ciris_scoring.windows.setting import Setting, read_setting
from ciris_scoring.windows.sums import (
    ARRAYS,
    NEVER,
    VALUE_UNITS,
    Deferrals,
    Events,
    FragileEpisodes,
    recovery_sums,
    scored_places,
)
from ciris_scoring.windows.ties import Scored

READ_AGENT_PERIODS = 120_000
"""Largest number of agents times periods that are read at a time: about 200 MB at the peak. A smaller number needs more
queries, and every query reads most pages of ``int_agent_periods``, because the rows of an agent are scattered."""

CHUNK_AGENT_PERIODS = 15_000
"""Largest number of agents times periods that are computed at a time: about 100 MB of running totals. The number does
not change a result."""

COUNT = Numbers("int4")

SUM_COLUMNS = {
    **dict.fromkeys(
        (
            "n_traces",
            "n_identity_changes",
            "n_overridden",
            "n_chain_valid",
            "n_chain_gaps",
            "n_replay_sampled",
            "n_replay_succeeded",
            "n_unsafe",
            "n_signals_corroborated",
            "n_signals_uncorroborated",
            "n_coherent_corroborated",
            "n_coherent_uncorroborated",
        ),
        COUNT,
    ),
    "n_fields_present": Numbers("int8"),
    **dict.fromkeys(
        ("judged_by_bin", "successes_by_bin", *(f"{metric}_histogram" for metric in METRICS)),
        Numbers("int4", N_BINS),
    ),
    "confidence_by_bin": Numbers("float8", N_BINS),
}
"""Columns of ``int_agent_periods`` that become :class:`PeriodSums`."""

COUNT_COLUMNS = {
    **dict.fromkeys(
        (
            "n_conscience_failed",
            "n_signature_verified",
            "n_key_registered",
            "n_link_valid",
            "n_chain_rewinds",
            "n_chain_duplicates",
            "n_trivial",
            "n_renumbered",
            "n_repeated_decisions",
            "n_shared_key",
            "n_new_keys",
        ),
        COUNT,
    ),
    "n_missing_numbers": Numbers("int8"),
    **dict.fromkeys(ARRAYS, Numbers("int4", len(FIELDS))),
}
"""Columns of ``int_agent_periods`` that are only summed over windows."""

NEWEST_FIRST = (
    ("traced_at", "desc"),
    ("audit_sequence_number", "desc nulls first"),
    ("trace_id", 'collate "C" desc nulls first'),
)
"""Columns and directions for ``order by`` that put an agent's newest trace first (scoring.md §2). Queries append the
table's key, so that the order of ties is fixed."""

NUMBERED_AGENTS = sql.SQL("""(
            select numbered.agent_id_hash, numbered.number - 1 as agent_number
            from unnest(%(agents)s::text[]) with ordinality as numbered (agent_id_hash, number)
        ) as agents""")
"""Subquery of the agents in the query parameter ``agents``, numbered from 0. A temporary table would not be visible to
the worker nodes of a Citus cluster."""


Relations = Mapping[str, sql.SQL]
"""Names of the relations that are read, as dbt quotes them, by the keys of ``inputs`` of the model."""


class Batch(NamedTuple):
    """Sums and scored rows of some agents of a block. Counts have the narrowest integer types."""

    sums: PeriodSums
    counts: Mapping[str, Integers]
    """Arrays (agents, periods, ...) by the names of ``COUNT_COLUMNS``; empty if they are not read."""
    places: Places

    def part(self, agents: range) -> "Batch":
        """Return the sums and scored rows of a range of the agents, renumbered from 0, with counts as int64."""

        def cut(values: NDArray[Any]) -> NDArray[Any]:
            found = values[agents.start : agents.stop]
            return found.astype(np.int64) if found.dtype.kind == "u" else found

        counts = {name: cut(values) for name, values in self.counts.items()}
        return Batch(PeriodSums._make(map(cut, self.sums)), counts, of_agents(self.places, agents))


Rows = TypeVar("Rows", bound=tuple[NDArray[Any], ...])
"""A named tuple of arrays, (n, ...) each, whose first field is the index of an agent."""


def of_agents(rows: Rows, agents: range) -> Rows:
    """Return the rows of a range of agents, with agents renumbered from 0."""
    mine = (rows[0] >= agents.start) & (rows[0] < agents.stop)
    agent, *others = (values[mine] for values in rows)
    kind: Any = type(rows)
    renumbered: Rows = kind(agent - agents.start, *others)
    return renumbered


def agents_of_block(session: Session, relations: Relations, setting: Setting, block: Block) -> list[str]:
    """Return the agents that have a row in a block, ordered bytewise. An agent's number is its position in the list."""
    query = sql.SQL("""
        select agent_id_hash
        from {periods}
        where period_start >= %(begin)s and period_start < %(end)s
        group by agent_id_hash
        order by agent_id_hash collate "C"
        """).format(periods=relations["agent_periods"])
    rows = session.rows(query, {"begin": block.first - setting.longest_window, "end": block.last})
    return [agent for (agent,) in rows]


def agents_at_a_time(n_periods: int, agent_periods: int) -> int:
    """Return the number of agents whose arrays have at most ``agent_periods`` elements, at least 1.

    :param n_periods: number of periods of the arrays, 1 or more.
    """
    return max(agent_periods // max(n_periods, 1), 1)


def readers(
    connection: Any,
    inputs: Mapping[str, str],
    *,
    event_days: int = 0,
    of_windows: bool = False,
    kept_bytes: int = 0,
) -> "tuple[Setting, Iterator[BlockReader]]":
    """Return the setting of the run, and a reader for each block of its as-ofs; one without agents if there are none.

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations.
    :param event_days: number of days before a window whose deferrals and episodes are read.
    :param of_windows: whether the sums of windows are computed, and nothing else: arrays then need not begin at the
        longest lookback horizon, and the counts of ``COUNT_COLUMNS`` are read, too.
    :param kept_bytes: largest size of the sums that a block keeps for a second pass.
    :raises StepError: a parameter is missing.
    """
    session = Session(connection)
    relations = {name: sql.SQL(relation) for name, relation in inputs.items()}
    setting = read_setting(
        session, relations["scoring_parameters"], relations["scoring_windows"], relations["scoring_run"]
    )
    if of_windows:
        setting = setting._replace(longest_horizon=setting.window_horizon)
    event_days = max(event_days, setting.parameters.steady_days)
    session.avoid_nested_loops()
    found = [
        (block, agents_of_block(session, relations, setting, block))
        for block in blocks(session, relations["agent_periods"], setting)
    ]
    nothing = Block(setting.as_of, setting.as_of, setting.as_of - setting.longest_horizon), list[str]()
    firsts = accumulate((len(agents) for _, agents in found), initial=0)
    return setting, (
        BlockReader(session, relations, setting, block, agents, event_days, first, kept_bytes, of_windows)
        for (block, agents), first in zip(found or [nothing], firsts, strict=False)
    )


class BlockReader:
    """Reader of the input of a block.

    Batches of agents are kept in memory for a second pass, until ``kept_bytes`` are used. Further batches are read
    again.
    """

    def __init__(
        self,
        session: Session,
        relations: Relations,
        setting: Setting,
        block: Block,
        agents: Sequence[str],
        event_days: int,
        first_number: int,
        kept_bytes: int,
        with_counts: bool,
    ):
        """Read the events of the block.

        :param event_days: number of days before a window whose deferrals and episodes are read.
        :param first_number: number of the block's first agent among the agents of all blocks.
        :param kept_bytes: largest size of the batches that are kept; 0 without a second pass.
        :param with_counts: whether the counts of ``COUNT_COLUMNS`` are read.
        """
        self.session, self.relations = session, relations
        self.setting, self.block, self.agents, self.first_number = setting, block, agents, first_number
        self._event_days = event_days
        self._count_columns = COUNT_COLUMNS if with_counts else {}
        self._kept: dict[range, Batch] = {}
        self._room = kept_bytes
        self._times: dict[str, Any] = {
            "origin": block.origin,
            "begin": block.first - setting.longest_window,
            "end": block.last,
            "as_of": setting.as_of,
            "never": NEVER,
            "period": setting.period.total_seconds(),
        }
        self._events = Events(self._deferrals(), self._episodes(), self._first_periods())

    def sums(self) -> Iterator[Batch]:
        """Yield the sums of the agents in chunks that are computed at a time; one empty chunk without agents."""
        for agents in self._ranges():
            batch = self.batch(agents)
            yield from map(batch.part, divided(len(agents), self._chunk_size))

    def chunks(self, read: Callable[[range], Rows]) -> Iterator[tuple[range, Batch, Rows]]:
        """Yield the chunks of :meth:`sums` with further rows.

        :param read: function that returns further rows of a range of the block's agents, renumbered from 0.
        :returns: positions in the list of the block's agents, their sums, and the rows of ``read``.
        """
        for agents in self._ranges():
            rows, batch = read(agents), self.batch(agents)
            for part in divided(len(agents), self._chunk_size):
                positions = range(agents.start + part.start, agents.start + part.stop)
                yield positions, batch.part(part), of_agents(rows, part)

    @property
    def _chunk_size(self) -> int:
        return agents_at_a_time(self.block.n_periods(self.setting), CHUNK_AGENT_PERIODS)

    def _ranges(self) -> Iterator[range]:
        """Return the ranges of the block's agents that are read at a time; one empty range without agents."""
        step = agents_at_a_time(self.block.n_periods(self.setting), READ_AGENT_PERIODS)
        return divided(len(self.agents), step)

    def batch(self, agents: range) -> Batch:
        """Return the sums and the scored rows of a range of agents, renumbered from 0.

        :param agents: positions in the list of the block's agents.
        :raises StepError: a sum is null or has the wrong length.
        """
        if agents in self._kept:
            return self._kept[agents]
        sums, counts = self._sums(agents)
        setting, first_as_of = self.setting, self.block.first_as_of(self.setting)
        n_traces = sums.n_traces.astype(np.int64)
        places = scored_places(n_traces, setting.windows, setting.periods_per_day, first_as_of)
        batch = Batch(sums, counts, places)
        self._room -= sum(values.nbytes for values in (*sums, *counts.values(), *places))
        if self._room > 0:
            self._kept[agents] = batch
        return batch

    def events(self, agents: range) -> Events:
        """Return the deferrals and fragile episodes of a range of the block's agents, renumbered from 0."""
        deferrals, episodes, first_period = self._events
        first_period = first_period[agents.start : agents.stop]
        return Events(of_agents(deferrals, agents), of_agents(episodes, agents), first_period)

    def scored(self, agents: range) -> Scored:
        """Read plausibility, alignment and coherence of the agents' traces in the windows of the block."""
        # PostgreSQL sends an array as a header of 20 bytes, and 4 bytes of length before each number.
        query = sql.SQL("""
            select
                agents.agent_number,
                (extract(epoch from periods.period_start - %(origin)s) / %(period)s)::int8,
                cardinality(periods.score_triples),
                substr(array_send(periods.score_triples), 21)
            from {periods} as periods
            inner join {agents} using (agent_id_hash)
            where
                periods.period_start >= %(begin)s and periods.period_start < %(end)s
                and periods.score_triples is not null
            """).format(periods=self.relations["agent_periods"], agents=NUMBERED_AGENTS)
        read = self.agents[agents.start : agents.stop]
        rows = self.session.rows(query, self._times | {"agents": read})
        places = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
        triples = np.frombuffer(b"".join(row[3] for row in rows), dtype=">i4")[1::2].astype(np.int64)
        agent, period = np.repeat(places[:, :2], places[:, 2], axis=0).T
        return Scored(agent, period, triples)

    def _sums(self, agents: range) -> tuple[PeriodSums, dict[str, Integers]]:
        """Read the sums per period of a range of agents into arrays (agents, periods, ...)."""
        read, columns = self.agents[agents.start : agents.stop], {**SUM_COLUMNS, **self._count_columns}
        parameters = {"agents": read, "lowest": min(read, default=""), "highest": max(read, default="")}
        # The condition has a range of agents and a range of times, so PostgreSQL can use an index on either.
        query = sql.SQL("""
            select
                agents.agent_number,
                (extract(epoch from periods.period_start - %(origin)s) / %(period)s)::int8,
                {columns}
            from {periods} as periods
            inner join {agents} using (agent_id_hash)
            where
                periods.agent_id_hash collate "C" between %(lowest)s and %(highest)s
                and periods.period_start >= %(origin)s and periods.period_start < %(end)s
            """).format(
            columns=sql.SQL(", ").join(
                column.cast(sql.Identifier("periods", name)) for name, column in columns.items()
            ),
            periods=self.relations["agent_periods"],
            agents=NUMBERED_AGENTS,
        )
        numbers = {"agent": Numbers("int8"), "period": Numbers("int8"), **columns}
        rows = self.session.read_numbers(query, self._times | parameters, numbers)
        (_, agent), (_, period) = next(rows), next(rows)
        shape = (len(agents), self.block.n_periods(self.setting))
        found: dict[str, NDArray[Any]] = {}
        for name, values in rows:
            placed = np.zeros(shape + values.shape[1:], dtype=values.dtype)
            placed[agent, period] = values
            found[name] = _narrowed(placed)
        counts = {name: found.pop(name) for name in self._count_columns}
        histograms = np.stack([found.pop(f"{metric}_histogram") for metric in METRICS], axis=2)
        for name, values in recovery_sums(self._events.episodes, agents, shape).items():
            found[name] = _narrowed(values)
        return PeriodSums(histograms=histograms, **found), counts

    def _deferrals(self) -> Deferrals:
        """Read the deferrals that count at an as-of of the block (scoring.md §6).

        An outcome counts from the time at which it became known. An outcome that became known at or after the run's
        as-of does not count. An outcome that is dated before its deferral counts from the deferral on.
        """
        baseline = max(window.baseline_days for window in self.setting.windows)
        lookback = max(baseline + DAYS_TO_JUDGE, self._event_days)
        query = sql.SQL("""
            select
                agents.agent_number,
                {created}::int8,
                case
                    when deferrals.is_judged and deferrals.judged_from < %(as_of)s
                        then {judged}
                    else %(never)s
                end::int8,
                round(coalesce(deferrals.deferral_value, 0) * {units})::int8,
                (deferrals.status = 'ESCALATED')::int4::int8
            from {deferrals} as deferrals
            inner join {agents} using (agent_id_hash)
            where
                deferrals.is_known_status
                and greatest(deferrals.judged_from, deferrals.created_at) >= %(since)s
                and deferrals.created_at < %(end)s
            """).format(
            created=_microseconds("deferrals.created_at"),
            judged=_microseconds("greatest(deferrals.judged_from, deferrals.created_at)"),
            units=sql.Literal(VALUE_UNITS),
            deferrals=self.relations["deferral_values"],
            agents=NUMBERED_AGENTS,
        )
        found = Deferrals(**self._numbers_of_all(query, Deferrals._fields, lookback))
        return found._replace(created=self._period(found.created), judged=self._period(found.judged))

    def _episodes(self) -> FragileEpisodes:
        """Read the fragile episodes that count at an as-of of the block (scoring.md §5).

        Only the episodes that ended before the run's as-of, and the episodes open at that time, are read. The episodes
        of an agent are in the order of its traces (scoring.md §2).
        """
        lookback = max(self.setting.longest_window.days, self._event_days)
        query = sql.SQL("""
            with episodes as (
                select
                    agents.agent_number,
                    events.failure_mode,
                    events.detected_at,
                    events.traced_at as recovered_at,
                    row_number() over (order by {newest_first}, events.agent_event_id desc) as nr_from_newest
                from {events} as events
                inner join {agents} using (agent_id_hash)
                where
                    events.kind = 'recovery'
                    and events.traced_at >= %(since)s
                    and events.traced_at < %(as_of)s

                union all

                select agents.agent_number, latest.failure_mode, latest.detected_at, null, 0
                from {events} as firsts
                inner join {agents} using (agent_id_hash)
                cross join lateral (
                    select events.kind, events.failure_mode, events.detected_at
                    from {events} as events
                    where
                        events.agent_id_hash = firsts.agent_id_hash
                        and events.kind in ('detection', 'recovery')
                        and events.traced_at < %(as_of)s
                    order by {newest_first}, events.agent_event_id desc
                    limit 1
                ) as latest
                where firsts.kind = 'first_trace' and latest.kind = 'detection'
            )

            select
                agent_number,
                {detected}::int8,
                coalesce({recovered}::int8, %(never)s),
                dense_rank() over (order by failure_mode collate "C")
            from episodes
            order by nr_from_newest desc
            """).format(
            detected=_microseconds("detected_at"),
            recovered=_microseconds("recovered_at"),
            events=self.relations["agent_events"],
            agents=NUMBERED_AGENTS,
            newest_first=sql.SQL(", ").join(
                sql.SQL(f"events.{column} {direction}") for column, direction in NEWEST_FIRST
            ),
        )
        found = self._numbers_of_all(query, ("agent", "detected", "recovered", "mode"), lookback)
        detected, recovered = found["detected"], found["recovered"]
        return FragileEpisodes(
            agent=found["agent"],
            detected=self._period(detected),
            recovered=self._period(recovered),
            mode=found["mode"],
            detected_microseconds=detected,
            microseconds=np.where(recovered < NEVER, recovered - detected, 0),
        )

    def _first_periods(self) -> Integers:
        query = sql.SQL("""
            select agents.agent_number, {first}::int8
            from {known} as known
            inner join {agents} using (agent_id_hash)
            """).format(
            first=_microseconds("known.first_traced_at"),
            known=self.relations["agents"],
            agents=NUMBERED_AGENTS,
        )
        found = self._numbers_of_all(query, ("agent", "first"))
        first = np.zeros(len(self.agents), dtype=np.int64)
        first[found["agent"]] = self._period(found["first"])
        return first

    def _numbers_of_all(
        self, query: sql.Composable, columns: Iterable[str], lookback_days: int = 0
    ) -> dict[str, Integers]:
        """Return the int8 columns of a query about all agents of the block.

        :param lookback_days: the query parameter ``since`` is this many days before the first window of the block.
        """
        since = self._times["begin"] - timedelta(days=lookback_days)
        parameters = self._times | {"agents": self.agents, "since": since}
        return dict(self.session.read_numbers(query, parameters, dict.fromkeys(columns, Numbers("int8"))))

    def _period(self, microseconds: Integers) -> Integers:
        """Return the index of the period of each time. The marker ``NEVER`` is returned unchanged.

        :param microseconds: times since the start of the first period in the arrays.
        """
        length = self.setting.period // timedelta(microseconds=1)
        return np.where(microseconds < NEVER, microseconds // length, NEVER)


def _microseconds(moment: str) -> sql.SQL:
    """Return SQL for a time in microseconds since the start of the first period in a block's arrays."""
    return sql.SQL(f"(extract(epoch from {moment} - %(origin)s) * 1000000)")


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return counts in the narrowest unsigned type that holds the largest count, and real numbers unchanged."""
    return values.astype(np.min_scalar_type(values.max(initial=0))) if values.dtype == np.int64 else values


def divided(n_agents: int, size: int) -> Iterator[range]:
    """Yield the ranges of ``size`` agents, the last one shorter; one empty range without agents."""
    for first in range(0, max(n_agents, 1), size):
        yield range(first, min(first + size, n_agents))
