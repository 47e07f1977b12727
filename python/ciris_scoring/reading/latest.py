"""The newest as-of that is published."""

from datetime import datetime
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from ciris_scoring.relations import Relations


class PublishedWindow(NamedTuple):
    """An as-of that is published, and the length of a window that ends there."""

    as_of: datetime
    window_days: int


def published_range(
    connection: psycopg.Connection, relations: Relations, window_days: int | None, until: datetime | None
) -> PublishedWindow | None:
    """Find the newest as-of with rows, up to a time, and its shortest window.

    :param window_days: only this window.
    :param until: None for no limit.
    :returns: as-of and window; None when there is no row.
    """
    query = sql.SQL(
        """
        select as_of, window_days
        from {scores}
        where
            (%(window)s::integer is null or window_days = %(window)s)
            and (%(until)s::timestamptz is null or as_of <= %(until)s)
        order by as_of desc, window_days
        limit 1
        """
    ).format(scores=relations["fct_capacity_scores"])
    with connection.cursor(row_factory=class_row(PublishedWindow)) as cursor:
        return cursor.execute(query, {"window": window_days, "until": until}).fetchone()
