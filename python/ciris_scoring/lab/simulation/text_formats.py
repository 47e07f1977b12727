"""Data frames in the text format of COPY."""

from collections.abc import Iterable, Iterator, Sequence
from typing import LiteralString

import numpy as np
import pandas as pd
import psycopg
from psycopg import sql

from ciris_scoring.database.statements import column_list

_Texts = Sequence[str | None]
"""SQL values of a column as texts; None is null."""

_ROWS_PER_BLOCK = 256
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_frames(
    connection: psycopg.Connection,
    table: sql.Composable,
    columns: Iterable[str],
    frames: Iterable[pd.DataFrame],
    options: LiteralString = "",
) -> int:
    """Append the rows of data frames to a table; return their number."""
    statement = sql.SQL("copy {} ({}) from stdin with (format text{})").format(
        table, column_list(columns), sql.SQL(options)
    )
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for block in copy_text(frames):
                copy.write(block)
        return cursor.rowcount


def copy_text(frames: Iterable[pd.DataFrame]) -> Iterator[str]:
    """Yield blocks of rows in the text format of COPY. Unlike CSV, this format does not double the quotes in JSON."""
    for frame in frames:
        columns = [["\\N" if value is None else value for value in _escaped(_text(frame[name]))] for name in frame]
        rows = list(map("\t".join, zip(*columns, strict=True)))
        for first in range(0, len(rows), _ROWS_PER_BLOCK):
            yield "\n".join(rows[first : first + _ROWS_PER_BLOCK]) + "\n"


def _escaped(values: _Texts) -> _Texts:
    together = "".join(filter(None, values))
    if not any(character in together for character in "\\\t\n\r"):
        return values
    return [None if v is None else v.translate(_ESCAPES) for v in values]


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
