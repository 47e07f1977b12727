"""Simulated traces that arrive as time goes on: a history, then a day at a time."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import pandas as pd
import psycopg
from psycopg import sql

from ciris_scoring.basics.project import Project
from ciris_scoring.basics.source_schema import SOURCE_TABLES, table_identifier
from ciris_scoring.basics.terminal import say
from ciris_scoring.lab.simulation import stream_fleet
from ciris_scoring.lab.simulation.load import Progress, append_traces, load_fleet
from ciris_scoring.lab.simulation.sample import SAMPLE

END = datetime.fromisoformat(SAMPLE["as_of"])
"""When the simulated traces end; fixed, so that every benchmark of the same options has the same traces."""

Cost = TypeVar("Cost")


class FleetOptions(NamedTuple):
    """What is simulated: see `simulate_fleet`."""

    agents: int
    traces_per_day: float
    seed: int


class Arriving:
    """The traces of a fleet, handed out to a database as time goes on."""

    def __init__(self, fleet: FleetOptions, days: int, progress: Progress):
        """Simulate a fleet that ends at `END`.

        :param progress: is told how many traces have been written.
        :raises InputError: the fleet cannot be simulated.
        """
        self.start = END - timedelta(days=days)
        self._stream = stream_fleet(
            fleet.agents, days, fleet.traces_per_day, fleet.seed, END, rows_per_chunk=1
        )
        self._frames = self._stream.traces
        self._next = next(self._frames, None)
        self._handed_out = 0
        self._progress = progress

    def load(self, connection: psycopg.Connection, project: Project, until: datetime) -> None:
        """Create the source tables, with the traces that begin before a time."""
        history = replace(self._stream, traces=self._before(until))
        load_fleet(
            connection,
            history,
            project.source_schema,
            project.source_tables,
            distributed=project.is_distributed,
        )

    def append(self, connection: psycopg.Connection, project: Project, until: datetime) -> None:
        """Add the traces that begin before a time and are not there yet."""
        append_traces(connection, self._before(until), project.source_schema, project.source_tables)

    def _before(self, until: datetime) -> Iterator[pd.DataFrame]:
        while self._next is not None and self._next["timestamp"].min() < until:
            yield self._next
            self._handed_out += len(self._next)
            self._progress(self._handed_out, max(self._handed_out, self._stream.expected_traces))
            self._next = next(self._frames, None)


def daily_runs(
    connection: psycopg.Connection,
    project: Project,
    arriving: Arriving,
    as_of: datetime,
    increments: int,
    run: Callable[[datetime], Cost],
) -> tuple[Cost, tuple[Cost, ...]]:
    """Score a history that is there, then each day that arrives.

    :param as_of: where the history ends.
    :param run: scores as of a time, and says what it took.
    :returns: what the history took, and each day.
    """
    say("Full history.")
    history = run(as_of)
    days = []
    for number in range(1, increments + 1):
        as_of += timedelta(days=1)
        say(f"Daily increment {number} of {increments}.")
        arriving.append(connection, project, as_of)
        days.append(run(as_of))
    return history, tuple(days)


def settle(connection: psycopg.Connection, project: Project) -> None:
    """Bring the sources to where autovacuum and checkpoints keep a table that has grown slowly."""
    for name in SOURCE_TABLES:
        table = table_identifier(name, project.source_schema, project.source_tables)
        connection.execute(sql.SQL("vacuum (analyze) {}").format(table))
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):  # the server's own will come
        connection.execute("checkpoint")
