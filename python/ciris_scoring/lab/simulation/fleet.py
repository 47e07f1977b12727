"""A simulated fleet, in memory or as a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from ciris_scoring.lab.simulation.lives import live
from ciris_scoring.lab.simulation.plan import Plan
from ciris_scoring.lab.simulation.schedule import schedule
from ciris_scoring.lab.simulation.tables import batches, deferrals, public_keys
from ciris_scoring.lab.simulation.traces import render

ROWS_PER_CHUNK = 40_000
"""Approximate number of traces in a data frame of a stream. It limits the memory that is needed."""


@dataclass(frozen=True)
class Fleet:
    """A simulated fleet: one data frame per source table, with columns in the order of the table.

    Times are `datetime64[us, UTC]`. Booleans are `boolean` and integers `Int64`, both nullable. Everything else is
    `object`: str or None. Scores are the text of the SQL value ("0.90"), because a NaN is a value in production and not
    a null; `astype(float)` converts them. JSON components are str.
    """

    traces: pd.DataFrame
    deferrals: pd.DataFrame
    public_keys: pd.DataFrame
    batches: pd.DataFrame


@dataclass(frozen=True)
class FleetStream:
    """A fleet whose traces are generated while they are read, for fleets that do not fit in memory."""

    traces: Iterator[pd.DataFrame]
    expected_traces: int
    """Number of traces without duplicates. Duplicates are about 0.3 % more rows."""
    deferrals: pd.DataFrame
    public_keys: pd.DataFrame
    batches: pd.DataFrame


def simulate_fleet(agents: int, days: int, traces_per_day: float, seed: int, end: datetime) -> Fleet:
    """Simulate a fleet in memory. Parameters and errors are those of `stream_fleet`."""
    stream = stream_fleet(agents, days, traces_per_day, seed, end)
    traces = pd.concat(stream.traces, ignore_index=True)
    return Fleet(traces, stream.deferrals, stream.public_keys, stream.batches)


def stream_fleet(
    agents: int,
    days: int,
    traces_per_day: float,
    seed: int,
    end: datetime,
    *,
    rows_per_chunk: int = ROWS_PER_CHUNK,
) -> FleetStream:
    """Simulate a fleet of any size. The rows and their order are the same as in `simulate_fleet`.

    Traces are in frames of about `rows_per_chunk` rows: the traces of all agents on one or more whole days. Rows are in
    the order of time, as in a production table. A duplicate is in the frame of the trace that it repeats.

    :param agents: number of agents; agent k behaves as ``PATHOLOGIES[k % len(PATHOLOGIES)]``.
    :param days: length of the simulation; every trace lies in ``[end - days, end)``.
    :param traces_per_day: mean number of traces per agent and day.
    :param seed: an integer, 0 or more; the same arguments give the same bytes.
    :param end: a time with a time zone, on a whole UTC hour.
    :raises InputError: an argument is out of range; this is checked before the first frame is generated.
    """
    plan = Plan.make(agents, days, traces_per_day, seed, end)
    return FleetStream(
        traces=_chunks(plan, rows_per_chunk),
        expected_traces=int(plan.n_traces.sum()),
        deferrals=deferrals(plan),
        public_keys=public_keys(plan),
        batches=batches(plan),
    )


def _chunks(plan: Plan, rows_per_chunk: int) -> Iterator[pd.DataFrame]:
    per_day = plan.n_traces.sum(axis=0)
    first = 0
    while first < plan.days:
        last = first + 1
        while last < plan.days and per_day[first : last + 1].sum() <= rows_per_chunk:
            last += 1
        rows = schedule(plan, first, last)
        yield render(plan, rows, live(plan, rows))
        first = last
