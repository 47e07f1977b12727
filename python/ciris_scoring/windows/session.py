"""The database session of dbt, as a Python model uses it: statements, and binary COPY of numbers.

The numbers of a row are sent as arrays of a fixed length, so every row of binary COPY has the same number of bytes. All
rows are then read as one numpy array. That is forty times faster than a Python object for each number.
"""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.errors import StepError
from ciris_scoring.windows.arrays import Floats, Integers

HEADER, TRAILER = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"
"""Format of binary COPY: PostgreSQL manual, COPY, section "Binary Format". An array has six int4 before its elements,
and each element has its length before it."""
TYPES = {"int8": (">i8", 20), "float8": (">f8", 701)}
"""Layout of each type in binary COPY, and its number in PostgreSQL's catalog pg_type."""


def _layout(arrays: Mapping[str, int]) -> np.dtype[Any]:
    """Return the layout of a row of arrays in binary COPY, from their types and lengths."""
    fields = [
        (name, [("head", ">i4", (6,)), ("elements", [("width", ">i4"), ("value", TYPES[name][0])], (length,))])
        for name, length in arrays.items()
    ]
    return np.dtype([("n_fields", ">i2"), *fields])


class Session:
    """Connection of dbt-postgres, inside the transaction of a model's materialization.

    :param connection: the second argument of the model, a DB-API connection of psycopg2.
    """

    def __init__(self, connection: Any):
        self._connection = connection

    def execute(self, query: sql.Composable | str, parameters: Any = None) -> None:
        """Run a statement and ignore its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(_text(query), parameters)

    def rows(self, query: sql.Composable | str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(_text(query), parameters)
            return list(cursor.fetchall())

    def read(self, query: sql.Composable | str, parameters: Any, length: int, kind: str = "int8") -> NDArray[Any]:
        """Return the rows of a query with one column, which is an array of numbers: (n, length).

        :param length: length of the arrays, 1 or more.
        :param kind: int8 for arrays of int8, float8 for arrays of float8.
        :raises StepError: a row has a null, or an array of another length.
        """
        row = _layout({kind: length})
        with self._connection.cursor() as cursor, BytesIO() as data:
            statement = cursor.mogrify(_text(query), parameters).decode()
            cursor.copy_expert(f"copy ({statement}) to stdout (format binary)", data)
            body = memoryview(data.getvalue())[len(HEADER) : -len(TRAILER)]
        if len(body) % row.itemsize == 0:
            elements = np.frombuffer(body, row)[kind]["elements"]
            if np.all(elements["width"] == 8):
                return elements["value"].astype(np.int64 if kind == "int8" else np.float64)
        raise StepError(
            "The sums of windows or periods hold a null, or arrays of another length than this version writes. "
            "Build them again: dbt build --full-refresh --vars 'ciris_allow_rescoring: true'"
        )

    def write(self, table: str, counts: Integers, reals: Floats) -> None:
        """Append n rows to a table that has the columns ``counts int8[]`` and ``reals float8[]``.

        :param counts: (n, length), at least one column; also ``reals``.
        """
        arrays = {"int8": counts, "float8": reals}
        rows = np.zeros(len(counts), _layout({kind: values.shape[1] for kind, values in arrays.items()}))
        rows["n_fields"] = len(arrays)
        for kind, values in arrays.items():
            length, field = values.shape[1], rows[kind]
            field["head"] = (20 + 12 * length, 1, 0, TYPES[kind][1], length, 1)
            field["elements"]["width"] = 8
            field["elements"]["value"] = values
        with self._connection.cursor() as cursor, BytesIO() as data:
            data.writelines((HEADER, rows.data, TRAILER))
            data.seek(0)
            cursor.copy_expert(f"copy pg_temp.{table} (counts, reals) from stdin (format binary)", data)


def _text(query: sql.Composable | str) -> str:
    return query if isinstance(query, str) else query.as_string(None)
