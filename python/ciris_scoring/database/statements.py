"""Parts of SQL statements."""

from collections.abc import Iterable

import psycopg
from psycopg import sql


def analyze(connection: psycopg.Connection, table: sql.Identifier) -> None:
    """Update the planner's statistics of a table."""
    with connection.transaction():
        connection.execute(sql.SQL("analyze {}").format(table))


def column_list(names: Iterable[str], of: str | None = None) -> sql.Composed:
    """Return a list of columns for SQL. If the table ``of`` is given, it qualifies each column."""
    return sql.SQL(", ").join(sql.Identifier(*filter(None, (of, name))) for name in names)
