"""Pieces of SQL statements, and the transactions that they run in."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import IsolationLevel, sql


@contextmanager
def one_transaction(connection: psycopg.Connection) -> Iterator[psycopg.Cursor]:
    """Return a cursor in a transaction that sees one snapshot, and that leaves all of its changes or none."""
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction(), connection.cursor() as cursor:
            yield cursor
    finally:
        if not connection.closed:
            connection.isolation_level = None


def analyze(connection: psycopg.Connection, table: sql.Identifier) -> None:
    """Renew the planner's statistics of a table."""
    with connection.transaction():
        connection.execute(sql.SQL("analyze {}").format(table))


def column_list(names: Iterable[str], of: str | None = None) -> sql.Composed:
    """List of columns, each qualified by the table ``of`` where given."""
    return sql.SQL(", ").join(sql.Identifier(*filter(None, (of, name))) for name in names)
