"""The database session of dbt, as a Python model uses it: statements, and binary COPY of numbers.

If no value is null and all arrays of a column have the same length, every row of binary COPY has the same number of
bytes. All rows are then read as one numpy array. That is forty times faster than a Python object for each number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from ciris_scoring.errors import StepError

Parameters = Mapping[str, Any] | Sequence[Any] | None
"""Values of the placeholders of a statement, by name or in their order."""

SIGNATURE = b"PGCOPY\n\xff\r\n\x00"
HEADER = SIGNATURE + bytes(8)
TRAILER = b"\xff\xff"
"""Format of binary COPY: PostgreSQL manual, COPY, section "Binary Format". The header is the signature, and 4 bytes
each for flags and the length of an extension, both 0."""


class Numbers(NamedTuple):
    """Type of a column of numbers, or of arrays of numbers with the same length in every row."""

    type: str
    """int4, int8 or float8."""
    length: int | None = None
    """Length of each array, 1 or more; None for single numbers."""

    @property
    def field(self) -> np.dtype[Any]:
        """Layout of a value of this type in binary COPY."""
        number = np.dtype([("width", ">i4"), ("value", _SENT[self.type][0])])
        if self.length is None:
            return number
        head = [(name, ">i4") for name in ("width", "dimensions", "nulls", "type", "length", "first")]
        return np.dtype([*head, ("elements", number, (self.length,))])

    def cast(self, value: sql.Composable) -> sql.Composed:
        """Return SQL that casts a value to this type."""
        return sql.SQL("{}::{}").format(value, self.sql_type)

    @property
    def sql_type(self) -> sql.SQL:
        """Name of this type in SQL."""
        return sql.SQL(self.type if self.length is None else f"{self.type}[]")

    def is_sound(self, sent: NDArray[Any]) -> bool:
        """Return whether each of n values that were read has numbers of this type, the right length, and no null."""
        number, oid = _SENT[self.type]
        if self.length is None:
            return bool(np.all(sent["width"] == np.dtype(number).itemsize))
        return bool(
            np.all(sent["length"] == self.length)
            and np.all(sent["type"] == oid)
            and np.all(sent["elements"]["width"] == np.dtype(number).itemsize)
        )

    def fill(self, sent: NDArray[Any], values: NDArray[Any]) -> None:
        """Write numbers, (n,) or (n, length), into ``sent``, an array (n,) of values in the layout of binary COPY."""
        number, oid = _SENT[self.type]
        width = np.dtype(number).itemsize
        numbers = sent
        if self.length is not None:
            head = sent.dtype.itemsize - 4
            for name, part in {"width": head, "dimensions": 1, "nulls": 0, "type": oid, "first": 1}.items():
                sent[name] = part
            sent["length"] = self.length
            numbers = sent["elements"]
        numbers["width"] = width
        numbers["value"] = values

    def values(self, sent: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers in n values that were read, (n,) or (n, length), as int64 or float64."""
        numbers = (sent if self.length is None else sent["elements"])["value"]
        return numbers.astype(np.float64 if self.type == "float8" else np.int64)


_SENT = {"int4": (">i4", 23), "int8": (">i8", 20), "float8": (">f8", 701)}
"""Layout of each type in binary COPY, and its OID (PostgreSQL's catalogue pg_type)."""


def types_of(columns: Mapping[str, NDArray[Any]]) -> dict[str, Numbers]:
    """Return the types of columns: int8 or int8[] for int64, float8 or float8[] for float64.

    :param columns: (n,) or (n, length) arrays by column name.
    """
    return {
        name: Numbers("int8" if values.dtype == np.int64 else "float8", values.shape[1] if values.ndim > 1 else None)
        for name, values in columns.items()
    }


class Session:
    """Connection of dbt-postgres, inside the transaction of a model's materialization.

    :param connection: the second argument of the model, a DB-API connection of psycopg2.
    """

    def __init__(self, connection: Any):
        self._connection = connection

    def avoid_nested_loops(self) -> None:
        """Turn nested loops and JIT off until the end of the transaction.

        The planner assumes that agents, as-ofs, periods and windows are independent columns. It therefore expects too
        few rows, and would choose slow nested loops.
        """
        self.execute("set local jit = off; set local enable_nestloop = off")

    def execute(self, query: sql.Composable | str, parameters: Parameters = None) -> None:
        """Run a statement and ignore its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(_text(query), parameters)

    def rows(self, query: sql.Composable | str, parameters: Parameters = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(_text(query), parameters)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def read_numbers(
        self, query: sql.Composable, parameters: Mapping[str, Any], columns: Mapping[str, Numbers]
    ) -> Iterator[tuple[str, NDArray[Any]]]:
        """Read the rows of a query whose columns are numbers, or arrays of numbers.

        :param columns: types of the columns of the query, in the order of the query, by names for the result.
        :returns: each column with its name, one after the other, so that not all columns need be in memory: (n,) for
            numbers and (n, length) for arrays, int64 or float64.
        :raises StepError: a row has a null, or an array whose length differs from that of its type.
        """
        row = np.dtype([("fields", ">i2"), *((name, column.field) for name, column in columns.items())])
        with self._connection.cursor() as cursor, BytesIO() as data:
            statement = cursor.mogrify(_text(query), parameters).decode()
            cursor.copy_expert(f"copy ({statement}) to stdout (format binary)", data)
            body = memoryview(data.getvalue())[len(HEADER) : -len(TRAILER)]
        if len(body) % row.itemsize == 0:
            rows = np.frombuffer(body, row)
            if all(column.is_sound(rows[name]) for name, column in columns.items()):
                return ((name, column.values(rows[name])) for name, column in columns.items())
        raise StepError(
            "The sums of windows or periods hold a null, or arrays of another length than this version writes. "
            "Build them again: dbt build --full-refresh --vars 'ciris_allow_rescoring: true'"
        )

    def write_numbers(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append n rows to a temporary table, which is created if it does not exist.

        :param columns: (n,) or (n, length) arrays of int64 or float64, by column name.
        """
        types = types_of(columns)
        self.execute(
            sql.SQL("create temporary table if not exists {} ({}) on commit drop").format(
                sql.Identifier(table),
                sql.SQL(", ").join(
                    sql.SQL("{} {}").format(sql.Identifier(name), kind.sql_type) for name, kind in types.items()
                ),
            )
        )
        [n] = {len(values) for values in columns.values()}
        row = np.dtype([("fields", ">i2"), *((name, kind.field) for name, kind in types.items())])
        rows = np.empty(n, row)
        rows["fields"] = len(columns)
        for name, values in columns.items():
            types[name].fill(rows[name], values)
        statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
            sql.Identifier("pg_temp", table), column_list(columns)
        )
        with self._connection.cursor() as cursor, BytesIO() as data:
            data.writelines((HEADER, rows.data, TRAILER))
            data.seek(0)
            cursor.copy_expert(_text(statement), data)


def column_list(names: Iterable[str]) -> sql.Composed:
    """Return a list of columns for SQL."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _text(query: sql.Composable | str) -> str:
    return query if isinstance(query, str) else query.as_string(None)
