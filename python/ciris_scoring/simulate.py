"""Load a simulated fleet, or the sample that ships with the package, into the source tables of a database.

``python -m ciris_scoring.simulate`` writes the sample's files again, from the arguments in `SAMPLE`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from ciris_scoring.errors import CirisError
from ciris_scoring.simulation import Fleet, FleetStream, simulate_fleet
from ciris_scoring.source_schema import (
    DEFAULT_SCHEMA,
    SOURCE_TABLES,
    add_keys,
    create_missing_tables,
    table_identifier,
)

Progress = Callable[[int, int], None]
"""Called with the traces sent so far and the number expected; the last call has both equal."""

SAMPLE: Mapping[str, Any] = {
    "agents": 14,
    "days": 45,
    "traces_per_day": 21,
    "seed": 20260615,
    "as_of": "2026-06-15T00:00:00Z",
}
"""What the sample is: the arguments of `simulate_fleet`, its end being the as-of time to score it at."""

_Texts = Sequence[str | None]
"""A column as the text of its SQL values, None for null."""

_ROWS_PER_FRAME = 40_000
_ROWS_PER_WRITE = 256


class TargetHoldsTraces(CirisError):
    """The traces table already holds rows: ``table`` is its name, ``n`` their number. Nothing was written."""

    def __init__(self, table: str, n: int):
        super().__init__(
            f"{table} already holds {n:,} traces; nothing was written.",
            "Simulated traces are never mixed with others: choose an empty database or another source schema.",
        )
        self.table = table
        self.n = n


def load_fleet(
    connection: psycopg.Connection,
    fleet: Fleet | FleetStream,
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a fleet into the four source tables and analyze them, in one transaction.

    Tables that do not exist are created; their indexes are then built after the rows. The rows of a
    `FleetStream` are never in memory at once.

    :param tables: logical name to the name used in the database, where they differ.
    :param progress: told how far the traces are, after every chunk.
    :returns: number of trace rows written.
    :raises TargetHoldsTraces: the traces table has a row already.
    :raises psycopg.Error: the database refuses; nothing remains written.
    """
    sources = {
        "covenant_public_keys": _copy_text(_pieces(fleet.public_keys)),
        "covenant_trace_batches": _copy_text(_pieces(fleet.batches)),
        "wbd_deferrals": _copy_text(_pieces(fleet.deferrals)),
    }
    expected = len(fleet.traces) if isinstance(fleet, Fleet) else fleet.expected_traces
    frames = _pieces(fleet.traces) if isinstance(fleet, Fleet) else fleet.traces
    sources["covenant_traces"] = _copy_text(_counted(frames, expected, progress))
    return _load(connection, schema, tables, sources, "format text")


def append_traces(
    connection: psycopg.Connection,
    frames: Iterable[pd.DataFrame],
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] | None = None,
) -> int:
    """Add traces of a fleet that `load_fleet` has begun, as time brings them, in one transaction; return how many."""
    with connection.transaction():
        return _copy(connection, "covenant_traces", _copy_text(frames), schema, tables, "format text")


def load_sample(
    connection: psycopg.Connection, schema: str = DEFAULT_SCHEMA, tables: Mapping[str, str] | None = None
) -> int:
    """Write the shipped sample into the four source tables: as `load_fleet`, with the same errors."""
    sources = {name: _decompressed(_sample_file(name).read_bytes()) for name in SOURCE_TABLES}
    return _load(connection, schema, tables, sources, "format csv, header true")


def sample_info() -> dict[str, Any]:
    """Return what ``sample.json`` says: `as_of` (ISO 8601) and the arguments the sample was simulated with."""
    return json.loads((resources.files("ciris_scoring") / "sample" / "sample.json").read_text("utf-8"))


def write_sample(folder: Path) -> None:
    """Simulate the sample and write its files; the same bytes every time, for one version of zlib."""
    arguments = dict(SAMPLE)
    end = datetime.fromisoformat(arguments.pop("as_of"))
    fleet = simulate_fleet(**arguments, end=end)
    frames = {
        "covenant_traces": fleet.traces,
        "wbd_deferrals": fleet.deferrals,
        "covenant_public_keys": fleet.public_keys,
        "covenant_trace_batches": fleet.batches,
    }
    for name, frame in frames.items():
        content = gzip.compress(_csv(frame).encode(), compresslevel=9, mtime=0)
        (folder / f"{name}.csv.gz").write_bytes(content)
    (folder / "sample.json").write_text(json.dumps(dict(SAMPLE), indent=2) + "\n", encoding="utf-8")


def _sample_file(logical_name: str) -> Any:
    return resources.files("ciris_scoring") / "sample" / f"{logical_name}.csv.gz"


def _decompressed(content: bytes) -> Iterator[bytes]:
    yield gzip.decompress(content)


def _load(
    connection: psycopg.Connection,
    schema: str,
    tables: Mapping[str, str] | None,
    sources: Mapping[str, Iterable[str | bytes]],
    options: str,
) -> int:
    """Send the blocks of text to their tables; return the number of traces."""
    written = {}
    with connection.transaction():
        created = create_missing_tables(connection, schema, tables)
        _refuse_traces(connection, schema, tables)
        for logical_name, blocks in sources.items():
            # Rows of a table made in this transaction can be written frozen, which spares the first readers work.
            freeze = ", freeze" if logical_name in created else ""
            written[logical_name] = _copy(connection, logical_name, blocks, schema, tables, options + freeze)
        add_keys(connection, created, schema, tables)
        for logical_name in sources:
            connection.execute(sql.SQL("analyze {}").format(table_identifier(logical_name, schema, tables)))
    return written["covenant_traces"]


def _copy(
    connection: psycopg.Connection,
    logical_name: str,
    blocks: Iterable[str | bytes],
    schema: str,
    tables: Mapping[str, str] | None,
    options: str,
) -> int:
    """Send blocks of text to one table; return the number of rows."""
    statement = sql.SQL("copy {} ({}) from stdin with ({})").format(
        table_identifier(logical_name, schema, tables),
        sql.SQL(", ").join(map(sql.Identifier, SOURCE_TABLES[logical_name].column_names)),
        sql.SQL(options),  # made of constants of this module
    )
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for block in blocks:
                copy.write(block)
        return cursor.rowcount


def _refuse_traces(connection: psycopg.Connection, schema: str, tables: Mapping[str, str] | None) -> None:
    name = table_identifier("covenant_traces", schema, tables)
    count = sql.SQL("select count(*) from {}").format(name)
    n = connection.cursor(row_factory=scalar_row).execute(count).fetchone()
    if n:
        raise TargetHoldsTraces(f"{schema}.{(tables or {}).get('covenant_traces', 'covenant_traces')}", n)


def _pieces(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for first in range(0, len(frame), _ROWS_PER_FRAME):
        yield frame.iloc[first : first + _ROWS_PER_FRAME]


def _counted(
    frames: Iterable[pd.DataFrame], expected: int, progress: Progress | None
) -> Iterator[pd.DataFrame]:
    done = 0
    for frame in frames:
        yield frame
        done += len(frame)
        if progress:
            progress(min(done, expected), expected)
    if progress:
        progress(done, done)


def _copy_text(frames: Iterable[pd.DataFrame]) -> Iterator[str]:
    """Yield blocks of rows in the text format of COPY, which takes JSON as it is, where CSV doubles its quotes."""
    for frame in frames:
        columns = [_nulls_marked(_escaped(values)) for values in _texts(frame)]
        rows = list(map("\t".join, zip(*columns, strict=True)))
        for first in range(0, len(rows), _ROWS_PER_WRITE):
            yield "\n".join(rows[first : first + _ROWS_PER_WRITE]) + "\n"


def _nulls_marked(values: _Texts) -> Sequence[str]:
    return ["\\N" if v is None else v for v in values]


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _escaped(values: _Texts) -> _Texts:
    together = "".join(filter(None, values))
    if not any(character in together for character in "\\\t\n\r"):
        return values
    return [None if v is None else v.translate(_ESCAPES) for v in values]


def _csv(frame: pd.DataFrame) -> str:
    """Return the frame as CSV with a header; an empty field is null, an empty string is quoted."""

    def quoted(value: str | None) -> str:
        if value is None:
            return ""
        return '"' + value.replace('"', '""') + '"' if not value or set(value) & set('",\r\n') else value

    columns = [list(map(quoted, values)) for values in _texts(frame)]
    return "\n".join([",".join(frame.columns), *map(",".join, zip(*columns, strict=True)), ""])


def _texts(frame: pd.DataFrame) -> list[_Texts]:
    return [_text(frame[name]) for name in frame.columns]


def _text(column: pd.Series) -> _Texts:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        times = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("datetime64[us]")
        texts = [f"{t}Z" for t in np.datetime_as_string(times, unit="us").tolist()]
    elif isinstance(column.dtype, pd.BooleanDtype):
        values = column.to_numpy(dtype=np.int64, na_value=0)
        texts = np.array(["f", "t"], dtype=object)[values].tolist()
    elif isinstance(column.dtype, pd.Int64Dtype):
        texts = list(map(str, column.to_numpy(dtype=np.int64, na_value=0).tolist()))
    else:
        return column.tolist()
    nulls = column.isna().to_numpy()
    if not nulls.any():
        return texts
    return [None if null else text for text, null in zip(texts, nulls.tolist(), strict=True)]


if __name__ == "__main__":
    write_sample(Path(__file__).parent / "sample")
