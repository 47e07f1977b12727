"""Load a simulated fleet into the source tables of a database."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd
import psycopg
from psycopg import sql

from ciris_scoring.database.connection import one_row
from ciris_scoring.database.source_schema import (
    DEFAULT_SCHEMA,
    SAME_NAMES,
    SOURCE_TABLES,
    add_keys,
    create_missing_tables,
)
from ciris_scoring.database.statements import analyze
from ciris_scoring.database.terminal import plural
from ciris_scoring.errors import CirisError
from ciris_scoring.lab.simulation.events import create_engine_tables, index_events, write_events
from ciris_scoring.lab.simulation.fleet import Fleet, FleetStream
from ciris_scoring.lab.simulation.text_formats import copy_frames

Progress = Callable[[int, int], None]
"""Function of two numbers: traces written so far, and traces to write. In the last call, the two numbers are equal."""


class TargetHoldsTraces(CirisError):
    """The traces table already has rows; nothing was written.

    :param n: number of traces in the table.
    """

    def __init__(self, table: str, n: int):
        super().__init__(
            f"{table} already holds {plural(n, 'trace')}; nothing was written.",
            "Simulated traces are never mixed with other traces: choose an empty database or another source schema.",
        )
        self.table = table
        self.n = n


def load_fleet(
    connection: psycopg.Connection,
    fleet: Fleet | FleetStream,
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] = SAME_NAMES,
    progress: Progress | None = None,
    *,
    as_events: bool = False,
) -> int:
    """Write a fleet into the four source tables and analyze them, in one transaction.

    Missing tables are created, and their indexes are built after the rows are written. A `FleetStream` is written frame
    by frame, so it need not fit in memory.

    :param tables: names of the tables in the database, by their names in SOURCE_TABLES. Equal names may be omitted.
    :param progress: called after every chunk of traces.
    :param as_events: write the traces as events, and the keys, into the tables of the trace store.
    :returns: number of trace rows written.
    :raises TargetHoldsTraces: the traces table already has a row.
    :raises psycopg.Error: a statement fails; nothing is written.
    """
    sources: dict[str, Iterable[pd.DataFrame]] = {
        "covenant_trace_batches": [fleet.batches],
        "wbd_deferrals": [fleet.deferrals],
    }
    expected = len(fleet.traces) if isinstance(fleet, Fleet) else fleet.expected_traces
    frames = _counted([fleet.traces] if isinstance(fleet, Fleet) else fleet.traces, expected, progress)
    if not as_events:
        sources["covenant_public_keys"] = [fleet.public_keys]
        sources["covenant_traces"] = frames
    written = {}
    names = [tables.get(name, name) for name in sources]
    traces = "trace_events" if as_events else tables.get("covenant_traces", "covenant_traces")
    with connection.transaction():
        has_new_events = as_events and create_engine_tables(connection, schema)
        wanted = {name: SOURCE_TABLES[name] for name in sources}
        created = create_missing_tables(connection, schema, tables, wanted)
        counted = sql.SQL("distinct trace_id" if as_events else "*")
        count = sql.SQL("select count({}) from {}").format(counted, sql.Identifier(schema, traces))
        [n] = one_row(connection.execute(count))
        if n:
            raise TargetHoldsTraces(f"{schema}.{traces}", n)
        for name, rows in sources.items():
            # PostgreSQL can write frozen rows if this transaction created the table. The first read is then faster.
            freeze = ", freeze" if name in created else ""
            table = sql.Identifier(schema, tables.get(name, name))
            written[name] = copy_frames(connection, table, SOURCE_TABLES[name].column_names, rows, freeze)
        if as_events:
            keys, table = fleet.public_keys, sql.Identifier(schema, "accord_public_keys")
            copy_frames(connection, table, keys.columns, [keys])
            written["covenant_traces"] = write_events(connection, frames, schema)
            names += ["trace_events", "accord_public_keys"]
        if has_new_events:
            index_events(connection, schema)
        add_keys(connection, created, schema, tables)
        for name in names:
            analyze(connection, sql.Identifier(schema, name))
    return written["covenant_traces"]


def _counted(frames: Iterable[pd.DataFrame], expected: int, progress: Progress | None) -> Iterator[pd.DataFrame]:
    done = 0
    for frame in frames:
        yield frame
        done += len(frame)
        if progress:
            progress(min(done, expected), expected)
    if progress:
        progress(done, done)
