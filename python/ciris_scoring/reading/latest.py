"""The newest as-of that is published."""

from datetime import datetime
from typing import NamedTuple

from ciris_scoring.reading.marts import Marts


class PublishedWindow(NamedTuple):
    """An as-of that is published, and the length of a window that ends there."""

    as_of: datetime
    window_days: int


def published_range(marts: Marts, window_days: int | None, until: datetime | None) -> PublishedWindow | None:
    """Find the newest as-of with rows, up to a time, and its shortest window.

    :param window_days: only this window.
    :param until: None for no limit.
    :returns: as-of and window; None when there is no row.
    """
    found = marts.rows(
        PublishedWindow,
        """
        select {columns}
        from {fct_capacity_scores}
        where
            (%(window)s::integer is null or window_days = %(window)s)
            and (%(until)s::timestamptz is null or as_of <= %(until)s)
        order by as_of desc, window_days
        limit 1
        """,
        window=window_days,
        until=until,
    )
    return found[0] if found else None
