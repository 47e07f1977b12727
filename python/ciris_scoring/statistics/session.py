"""The database session of dbt, as a Python model uses it: statements and binary COPY."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

from psycopg import sql

from ciris_scoring.basics.statements import column_list

Parameters = Mapping[str, Any] | Sequence[Any] | None


class Session:
    """Connection of dbt-postgres, inside the transaction of a model's materialization.

    :param connection: the second argument of the model, a DB-API connection of psycopg2.
    """

    def __init__(self, connection: Any):
        self._connection = connection

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

    def copy_out(self, query: sql.Composable | str, parameters: Parameters = None) -> memoryview:
        """Return the rows of a query in the binary format of COPY."""
        with self._connection.cursor() as cursor, BytesIO() as data:
            statement = cursor.mogrify(_text(query), parameters).decode()
            cursor.copy_expert(f"copy ({statement}) to stdout (format binary)", data)
            return memoryview(data.getvalue())

    def copy_in(self, table: str, columns: Iterable[str], data: bytes) -> None:
        """Append rows in the binary format of COPY to a temporary table."""
        statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
            sql.Identifier("pg_temp", table), column_list(columns)
        )
        with self._connection.cursor() as cursor:
            cursor.copy_expert(_text(statement), BytesIO(data))


def _text(query: sql.Composable | str) -> str:
    return query if isinstance(query, str) else query.as_string(None)
