"""Read the input of the Python models: counts of agents per period, deferrals and fragile episodes; and write rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Columns, Integers
from ciris_scoring.windows.run import Block, number, read_run
from ciris_scoring.windows.session import Session
from ciris_scoring.windows.sums import NEVER, UNITS, Deferrals, Events, FragileEpisodes, Places, scored_places

BLOCK_PERIODS, READ_AGENT_PERIODS, CHUNK_AGENT_PERIODS = 4_000, 120_000, 15_000
"""Largest number of as-ofs that are computed in the same arrays, and of agents times periods that are read, and that
are computed, at a time. They limit memory to about 250 MB and do not change a result. Every query reads most pages of
``int_agent_periods``, because the rows of an agent are scattered."""
NEWEST_FIRST = (
    ("traced_at", "desc"),
    ("audit_sequence_number", "desc nulls first"),
    ("trace_id", 'collate "C" desc nulls first'),
)
"""Columns and directions for ``order by`` that put an agent's newest trace first (scoring.md §2). Queries append the
table's key, so that the order of ties is fixed."""
AGENTS = """(
            select listed.agent_id_hash, listed.number - 1 as agent_number
            from unnest(%(agents)s::text[]) with ordinality as listed (agent_id_hash, number)
        ) as agents"""
"""Subquery of the agents in the query parameter ``agents``, numbered from 0. A temporary table would not be visible to
the worker nodes of a Citus cluster."""


def of_agents(rows: Any, agents: range) -> Any:
    """Return the rows of a range of agents, renumbered from 0, of a named tuple of arrays whose first is the agent."""
    mine = (rows[0] >= agents.start) & (rows[0] < agents.stop)
    return rows._make([rows[0][mine] - agents.start, *(values[mine] for values in rows[1:])])


class Numbers:
    """Numbers of a row that are read as one array: single numbers, then arrays of numbers.

    :param counts: SQL expression of each single number, by its name.
    :param arrays: SQL expression and length of each array, by its name.
    :param kind: type of the array, int8 or float8.
    """

    def __init__(
        self, counts: Mapping[str, str], arrays: Mapping[str, tuple[str, int]] | None = None, kind: str = "int8"
    ):
        self.at: dict[str, int | slice] = {name: position for position, name in enumerate(counts)}
        self.length, self.sql = len(counts), f"array[{', '.join(counts.values())}]::{kind}[]"
        for name, (expression, length) in (arrays or {}).items():
            self.at[name] = slice(self.length, self.length + length)
            self.length += length
            self.sql += f" || ({expression})::{kind}[]"

    def of(self, rows: Integers, name: str) -> Integers:
        """Return a number, or an array of numbers, of rows (..., length)."""
        return rows[..., self.at[name]]


class Batch(NamedTuple):
    """Input of some agents for the as-ofs of a block. Periods are indices into the arrays. They are negative before the
    first period of the arrays, and agents are numbered from 0."""

    names: list[str]
    """Hash of each agent."""
    block: Block
    counts: Integers
    """(agents, periods, numbers) numbers of ``Reader.numbers``; 0 in a period without traces."""
    places: Places
    events: Events

    def parts(self) -> Iterator[tuple[range, "Batch"]]:
        """Yield the input of agents that are computed at a time, renumbered from 0, with their former numbers."""
        size, of = max(CHUNK_AGENT_PERIODS // self.counts.shape[1], 1), self.events
        for first in range(0, len(self.names) or 1, size):
            agents, mine = range(first, first + size), slice(first, first + size)
            events = Events(of_agents(of.deferrals, agents), of_agents(of.episodes, agents), of.first_period[mine])
            yield agents, Batch(self.names[mine], self.block, self.counts[mine], of_agents(self.places, agents), events)


class Reader:
    """Reader of the input of a Python model, and writer of its rows.

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations.
    :param numbers: numbers that are read from ``int_agent_periods``.
    :param kept_bytes: largest size of the batches that are kept for a second pass over a block.
    """

    def __init__(self, connection: Any, inputs: Mapping[str, str], numbers: Numbers, kept_bytes: int = 0):
        self.session, self.relations, self.numbers, self._kept_bytes = Session(connection), inputs, numbers, kept_bytes
        self._kept: dict[tuple[Block, int], Batch] = {}
        self._n_agents = 0
        self._written: dict[str, str] = {}
        self.run = read_run(self.session, inputs)
        # The planner assumes that agents, as-ofs and windows are independent. It would expect too few rows and choose
        # slow nested loops. On a cluster, Citus sends the whole text that contains "set local" to the workers.
        self.session.execute("set local jit = off")
        self.session.execute("set local enable_nestloop = off")
        self.session.execute("""
            create temporary table ciris_rows (counts int8[], reals float8[]) on commit drop;
            create temporary table ciris_agents (agent_number int8, agent_id_hash text) on commit drop
            """)

    def blocks(self, horizon_days: int) -> Iterator[Block]:
        """Divide the as-ofs of the run into blocks, at least one.

        :param horizon_days: days before an as-of that the arrays cover.
        """
        run = self.run
        since = None if run.cutoff is None else run.time(run.cutoff - run.longest_window)
        [(first, last)] = self.session.rows(
            f"select {number('min(period_start)', run)}, {number('max(period_start)', run)} "
            f"from {self.relations['agent_periods']} "
            "where period_start < %(until)s and (%(since)s::timestamptz is null or period_start >= %(since)s)",
            {"until": run.time(run.as_of), "since": since},
        )
        first = run.as_of if first is None else max(first, run.cutoff or first) + 1
        last = min((last or first) + run.longest_window, run.as_of)
        for start in range(first, last + 1, BLOCK_PERIODS) or [first]:
            yield Block(start, min(start + BLOCK_PERIODS - 1, last), start - horizon_days * run.per_day)

    def batches(self, block: Block, event_days: int) -> Iterator[Batch]:
        """Read the input of a block, some agents at a time, in the order of their hashes.

        :param event_days: number of days before the first as-of from which deferrals and episodes are read.
        """
        run = self.run
        agents = self.session.rows(
            f"""
            select known.agent_id_hash, {number("known.first_traced_at", run)} - {block.origin}
            from {self.relations["agents"]} as known
            where agent_id_hash in (
                select agent_id_hash from {self.relations["agent_periods"]}
                where period_start >= %(begin)s and period_start < %(end)s
            )
            order by known.agent_id_hash collate "C"
            """,
            {"begin": run.time(block.first - run.longest_window), "end": run.time(block.last)},
        )
        size = max(READ_AGENT_PERIODS // (block.last - block.origin), 1)
        for at in range(0, len(agents) or 1, size):
            batch = self._kept.pop((block, at), None)
            if batch is None:
                batch = self._batch(agents[at : at + size], block, block.first - event_days * run.per_day)
                if batch.counts.nbytes + sum(one.counts.nbytes for one in self._kept.values()) <= self._kept_bytes:
                    self._kept[block, at] = batch
            yield batch

    def _batch(self, agents: list[tuple[Any, ...]], block: Block, since: int) -> Batch:
        """Read the input of agents, each with the period of its first trace."""
        run, names = self.run, [name for name, _ in agents]
        parameters = {
            "agents": names,
            "lowest": min(names, default=""),
            "highest": max(names, default=""),
            **{"begin": run.time(block.origin), "end": run.time(block.last)},
            **{"since": run.time(since), "as_of": run.time(run.as_of)},
        }
        # The condition has a range of agents and a range of times, so PostgreSQL can use an index on either.
        query = f"""
            select array[agent_number, {number("period_start", run)}]::int8[] || {self.numbers.sql}
            from {self.relations["agent_periods"]} as periods
            inner join {AGENTS} using (agent_id_hash)
            where
                periods.agent_id_hash collate "C" between %(lowest)s and %(highest)s
                and period_start >= %(begin)s and period_start < %(end)s
            """
        rows = self.session.read(query, parameters, 2 + self.numbers.length)
        counts = np.zeros((len(names), block.last - block.origin, self.numbers.length), dtype=np.int64)
        counts[rows[:, 0], rows[:, 1] - block.origin] = rows[:, 2:]
        n_traces = self.numbers.of(counts, "n_traces")
        days = tuple(window.window_days for window in run.windows)
        places = scored_places(n_traces, days, run.per_day, block.first - block.origin)
        first = np.array([first for _, first in agents], dtype=np.int64)
        events = Events(self._deferrals(parameters, block), self._episodes(parameters, block), first)
        return Batch(names, block, counts, places, events)

    def _period(self, moment: str, block: Block) -> str:
        """Return SQL for the period of a time, as an index into the arrays of a block; ``NEVER`` if it is null."""
        return f"coalesce({number(moment, self.run)} - {block.origin}, {NEVER})"

    def _deferrals(self, parameters: Mapping[str, Any], block: Block) -> Deferrals:
        """Read the deferrals that count at an as-of of the block (scoring.md §6).

        An outcome counts from the time at which it became known. An outcome that became known at or after the run's
        as-of does not count. An outcome that is dated before its deferral counts from the deferral on.
        """
        known = "case when is_judged and judged_from < %(as_of)s then greatest(judged_from, created_at) end"
        query = f"""
            select array[
                agent_number,
                {self._period("created_at", block)},
                {self._period(known, block)},
                round(coalesce(deferral_value, 0) * {UNITS}),
                (status = 'ESCALATED')::int
            ]::int8[]
            from {self.relations["deferral_values"]} as deferrals
            inner join {AGENTS} using (agent_id_hash)
            where
                is_known_status
                and greatest(judged_from, created_at) >= %(since)s
                and created_at < %(end)s
            """
        return Deferrals(*self.session.read(query, parameters, len(Deferrals._fields)).T)

    def _episodes(self, parameters: Mapping[str, Any], block: Block) -> FragileEpisodes:
        """Read the fragile episodes that count at an as-of of the block (scoring.md §5).

        Only the episodes that ended before the run's as-of, and the episodes open at that time, are read. The episodes
        of an agent are in the order of its traces (scoring.md §2).
        """
        newest_first = ", ".join(f"events.{column} {direction}" for column, direction in NEWEST_FIRST)
        query = f"""
            with episodes as (
                select
                    agents.agent_number,
                    events.failure_mode,
                    events.detected_at,
                    events.traced_at as recovered_at,
                    row_number() over (order by {newest_first}, events.agent_event_id desc) as nr_from_newest
                from {self.relations["agent_events"]} as events
                inner join {AGENTS} using (agent_id_hash)
                where
                    events.kind = 'recovery'
                    and events.traced_at >= %(since)s
                    and events.traced_at < %(as_of)s

                union all

                select agents.agent_number, latest.failure_mode, latest.detected_at, null, 0
                from {self.relations["agent_events"]} as firsts
                inner join {AGENTS} using (agent_id_hash)
                cross join lateral (
                    select events.kind, events.failure_mode, events.detected_at
                    from {self.relations["agent_events"]} as events
                    where
                        events.agent_id_hash = firsts.agent_id_hash
                        and events.kind in ('detection', 'recovery')
                        and events.traced_at < %(as_of)s
                    order by {newest_first}, events.agent_event_id desc
                    limit 1
                ) as latest
                where firsts.kind = 'first_trace' and latest.kind = 'detection'
            )

            select array[
                agent_number,
                {self._period("detected_at", block)},
                {self._period("recovered_at", block)},
                dense_rank() over (order by failure_mode collate "C"),
                round((extract(epoch from detected_at) - {block.origin * self.run.seconds}) * 1000000),
                round(coalesce(extract(epoch from recovered_at - detected_at), 0) * 1000000)
            ]::int8[]
            from episodes
            order by nr_from_newest desc
            """
        return FragileEpisodes(*self.session.read(query, parameters, len(FragileEpisodes._fields)).T)

    def write(self, batch: Batch, columns: Columns) -> None:
        """Write a row for each place of a batch.

        :param columns: (n, ...) int64, or (n,) float64 with NaN for null. :meth:`written` selects them by their names.
        """
        names = "select %s + number - 1, name from unnest(%s::text[]) with ordinality as listed (name, number)"
        self.session.execute(f"insert into ciris_agents {names}", (self._n_agents, batch.names))
        days = np.array([window.window_days for window in self.run.windows])
        agent, as_of, window = batch.places
        counts = [np.stack([agent + self._n_agents, as_of + batch.block.origin, days[window]], axis=1)]
        reals = [np.zeros((len(agent), 1))]  # an empty array has another format
        self._n_agents += len(batch.names)
        for name, values in columns.items():
            if values.dtype == np.float64:
                reals.append(values[:, None])
                self._written[name] = f"nullif(reals[{len(reals)}], 'NaN')"
                continue
            first = sum(one.shape[1] for one in counts) + 1
            counts.append(values if values.ndim > 1 else values[:, None])
            at = f"{first}:{first + values.shape[1] - 1}" if values.ndim > 1 else f"{first}"
            self._written[name] = f"counts[{at}]"
        self.session.write("ciris_rows", np.concatenate(counts, axis=1), np.concatenate(reals, axis=1))

    def written(self, names: Mapping[str, Sequence[str]] | None = None) -> str:
        """Return the query of the written rows, with their keys.

        :param names: lists of names, by column. The column has positions in its list, and −1 stands for null.
        """
        lists = {name: "'{" + ",".join(texts) + "}'::text[]" for name, texts in (names or {}).items()}
        columns = [
            f"({lists[name]})[{value} + 1] as {name}" if name in lists else f"{value} as {name}"
            for name, value in self._written.items()
        ]
        return f"""
            select
                agents.agent_id_hash, to_timestamp(counts[2] * {self.run.seconds}) as as_of,
                counts[3]::int4 as window_days, {", ".join(columns)}
            from pg_temp.ciris_rows
            inner join pg_temp.ciris_agents as agents on agent_number = counts[1]
            """
