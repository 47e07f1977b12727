"""A simulated fleet as a whole, in memory or as a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from ciris_scoring.lab.simulation.batches import batches
from ciris_scoring.lab.simulation.deferrals import deferrals
from ciris_scoring.lab.simulation.keys import public_keys
from ciris_scoring.lab.simulation.lives import live
from ciris_scoring.lab.simulation.plan import Plan
from ciris_scoring.lab.simulation.schedule import schedule
from ciris_scoring.lab.simulation.traces import render

ROWS_PER_CHUNK = 40_000


@dataclass(frozen=True)
class Fleet:
    """A simulated fleet, one frame per source table, columns in the order of the table.

    Times are `datetime64[us, UTC]`; booleans `boolean` and integers `Int64`, both nullable; everything else
    is `object`: str or None. Scores are the text of the SQL value ("0.90"), because a NaN that production admits
    is a value and not a null; `astype(float)` turns them into floats. Components are JSON text.
    """

    traces: pd.DataFrame
    deferrals: pd.DataFrame
    public_keys: pd.DataFrame
    batches: pd.DataFrame


@dataclass(frozen=True)
class FleetStream:
    """A fleet whose traces are made while they are read: for fleets that do not fit in memory.

    `traces` can be read once. `expected_traces` is their number without duplicates (about 0.3 percent more).
    """

    traces: Iterator[pd.DataFrame]
    expected_traces: int
    deferrals: pd.DataFrame
    public_keys: pd.DataFrame
    batches: pd.DataFrame


def simulate_fleet(agents: int, days: int, traces_per_day: float, seed: int, end: datetime) -> Fleet:
    """Simulate a fleet in memory; parameters and errors as in `stream_fleet`."""
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
    """Simulate a fleet of any size: the rows of `simulate_fleet` in their order, traces in frames of whole days.

    A frame holds all agents of as many days as make about `rows_per_chunk` rows (at least one day), so rows
    come interleaved in time, as they reach a production table, and physical order follows `timestamp`, except
    for a trace delivered again, which stands in the day of its first delivery.

    :param agents: number of agents; agent k behaves as ``PATHOLOGIES[k % len(PATHOLOGIES)]``.
    :param days: length of the simulation; every trace lies in ``[end - days, end)``.
    :param traces_per_day: traces per agent and day on average.
    :param seed: any integer from 0 on; the same arguments give the same bytes.
    :param end: an aware time on a whole UTC hour.
    :raises InputError: an argument is out of range; that is checked before the first frame is asked for.
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
