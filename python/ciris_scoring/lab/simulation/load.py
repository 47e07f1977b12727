"""Load a simulated fleet into the source tables of a database."""

from collections.abc import Iterable, Iterator, Mapping

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
from ciris_scoring.database.terminal import plural, progress
from ciris_scoring.errors import CirisError
from ciris_scoring.lab.simulation.fleet import Fleet, FleetStream
from ciris_scoring.lab.simulation.text_formats import copy_frames


def load_fleet(
    connection: psycopg.Connection,
    fleet: Fleet | FleetStream,
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] = SAME_NAMES,
) -> int:
    """Write a fleet into the four source tables and analyze them, in one transaction.

    Missing tables are created, and their indexes are built after the rows are written. A `FleetStream` is written frame
    by frame, so it need not fit in memory.

    :param tables: names of the tables in the database, by their names in SOURCE_TABLES. Equal names may be omitted.
    :returns: number of trace rows written.
    :raises CirisError: the traces table already has a row; nothing is written.
    :raises psycopg.Error: a statement fails; nothing is written.
    """
    sources: dict[str, Iterable[pd.DataFrame]] = {
        "covenant_trace_batches": [fleet.batches],
        "wbd_deferrals": [fleet.deferrals],
        "covenant_public_keys": [fleet.public_keys],
        "covenant_traces": [fleet.traces] if isinstance(fleet, Fleet) else _counted(fleet),
    }
    names = {name: sql.Identifier(schema, tables.get(name, name)) for name in sources}
    traces, n_written = names["covenant_traces"], 0
    with connection.transaction():
        created = create_missing_tables(connection, schema, tables, SOURCE_TABLES)
        [n] = one_row(connection.execute(sql.SQL("select count(*) from {}").format(traces)))
        if n:
            raise CirisError(
                f"The schema {schema} already holds {plural(n, 'trace')}; nothing was written.",
                "Simulated traces are not mixed with other traces: choose an empty database or another source schema.",
            )
        for name, rows in sources.items():
            # PostgreSQL can write frozen rows if this transaction created the table. The first read is then faster.
            freeze = ", freeze" if name in created else ""
            n_written = copy_frames(connection, names[name], SOURCE_TABLES[name].column_names, rows, freeze)
        add_keys(connection, created, schema, tables)
        for table in names.values():
            analyze(connection, table)
    return n_written


def _counted(fleet: FleetStream) -> Iterator[pd.DataFrame]:
    done = 0
    for frame in fleet.traces:
        yield frame
        done += len(frame)
        progress(f"{min(done, fleet.expected_traces):,} of {fleet.expected_traces:,} traces written")
